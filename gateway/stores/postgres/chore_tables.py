"""The tables of chores, which one instance at a time does, and of reminders that ended."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @chores (
        name text COLLATE "C" PRIMARY KEY,
        at_ms bigint NOT NULL,
        holder text COLLATE "C" NOT NULL
    )
    """,
    """
    CREATE TABLE @endings (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        at_ms bigint NOT NULL,
        task bytea NOT NULL
    )
    """,
    "CREATE INDEX endings_of_session ON @endings (owner, session, at_ms)",
    "CREATE INDEX endings_oldest ON @endings (at_ms)",
)
