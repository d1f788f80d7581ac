"""The tables of items that wait for sessions, of events, and of their posts to webhooks.

The row of a session in `heads` has the numbers of its last event and of its last item. Whoever adds
one updates this row, and so nobody else adds one before the first is committed: the order of
numbers is the order of commits. The first number is made of the time, so that a session that was
deleted does not give a number twice.
"""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @heads (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        events bigint NOT NULL DEFAULT 0,
        items bigint NOT NULL DEFAULT 0,
        heard_until bigint,
        PRIMARY KEY (owner, session)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)
    """,
    "CREATE INDEX heads_heard ON @heads (heard_until) WHERE heard_until IS NOT NULL",
    """
    CREATE TABLE @items (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        id text COLLATE "C" NOT NULL,
        at_ms bigint NOT NULL,
        text bytea NOT NULL,
        job_id text COLLATE "C" NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        name bytea NOT NULL,
        status text NOT NULL,
        missed bigint NOT NULL,
        delivered_ms bigint,
        holder text COLLATE "C",
        token text COLLATE "C",
        PRIMARY KEY (owner, session, seq)
    ) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02)
    """,
    "CREATE UNIQUE INDEX items_id ON @items (owner, session, id)",
    "CREATE INDEX items_pending ON @items (owner, session) WHERE delivered_ms IS NULL",
    "CREATE INDEX items_delivered ON @items (delivered_ms) WHERE delivered_ms IS NOT NULL",
    """
    CREATE TABLE @events (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        kind text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        at_ms bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (owner, session, seq)
    )
    """,
    "CREATE UNIQUE INDEX events_key ON @events (owner, session, kind, key)",
    "CREATE INDEX events_oldest ON @events (at_ms)",
    """
    CREATE TABLE @posts (
        hook text COLLATE "C" NOT NULL,
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        at_ms bigint NOT NULL,
        tries integer NOT NULL DEFAULT 0,
        holder text COLLATE "C",
        PRIMARY KEY (hook, owner, session, seq)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02)
    """,
    "CREATE INDEX posts_next ON @posts (at_ms)",
)
