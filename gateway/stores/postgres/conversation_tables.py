"""The tables of conversations, of snapshots of relay sessions, and of locks.

A conversation has one row for each exchange, appended: to write all of it each time would write up
to 4 MB each time.
"""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @talks (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        is_newest boolean NOT NULL,
        updated_ms bigint NOT NULL,
        token text COLLATE "C" NOT NULL,
        messages bytea NOT NULL,
        PRIMARY KEY (owner, session, agent, number)
    )
    """,
    "CREATE UNIQUE INDEX talks_newest ON @talks (owner, session, agent) WHERE is_newest",
    """
    CREATE INDEX talks_updated ON @talks (owner, updated_ms, session, agent) WHERE is_newest
    """,
    """
    CREATE TABLE @snapshots (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        dialect text NOT NULL,
        model bytea NOT NULL,
        body bytea NOT NULL,
        answer bytea NOT NULL,
        updated_ms bigint NOT NULL,
        headers bytea NOT NULL,
        PRIMARY KEY (owner, session)
    )
    """,
    """
    CREATE TABLE @locks (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        token text COLLATE "C" NOT NULL,
        holder text COLLATE "C" NOT NULL,
        reason text NOT NULL,
        resting boolean NOT NULL DEFAULT false,
        PRIMARY KEY (owner, session)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)
    """,
)
