"""The table of instances."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @instances (
        id text COLLATE "C" PRIMARY KEY,
        until timestamptz NOT NULL,
        buried boolean NOT NULL DEFAULT false,
        host text NOT NULL,
        build text NOT NULL,
        process text COLLATE "C" NOT NULL
    )
    """,
    "CREATE INDEX instances_until ON @instances (until) WHERE NOT buried",
)
