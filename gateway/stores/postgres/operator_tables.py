"""The tables of what operators get over several instances."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @secrets (
        name text COLLATE "C" PRIMARY KEY,
        secret bytea NOT NULL
    )
    """,
    # Both lost in a crash of the server, and of no use after it.
    """
    CREATE UNLOGGED TABLE @limit_counts (
        holder text COLLATE "C" NOT NULL,
        owner text COLLATE "C" NOT NULL,
        requests bigint NOT NULL,
        tokens bigint NOT NULL,
        running int NOT NULL,
        PRIMARY KEY (holder, owner)
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE UNLOGGED TABLE @errands (
        id text COLLATE "C" PRIMARY KEY,
        process text COLLATE "C" NOT NULL,
        exchange_id text COLLATE "C" NOT NULL,
        action text NOT NULL,
        scope text COLLATE "C",
        at_ms bigint NOT NULL,
        is_taken boolean NOT NULL DEFAULT false,
        outcome text
    )
    """,
)
