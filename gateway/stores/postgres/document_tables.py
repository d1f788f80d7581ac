"""The tables of documents, and of what requests show of a session beside them."""

from __future__ import annotations

# What is rewritten often is cleaned up soon: by default a table grows by a fifth first.
CLEANED_SOON = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02"

TABLES = (
    f"""CREATE TABLE @documents (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        revision int8 NOT NULL,
        due_ms int8,
        ready_ms int8,
        updated_ms int8 NOT NULL,
        document bytea NOT NULL,
        PRIMARY KEY (owner, session, kind)
    ) WITH (fillfactor = 70, {CLEANED_SOON})""",
    "CREATE INDEX documents_due ON @documents (kind, due_ms) WHERE due_ms IS NOT NULL",
    "CREATE INDEX documents_ready ON @documents (ready_ms) WHERE ready_ms IS NOT NULL",
    "CREATE INDEX documents_updated ON @documents (owner, kind, updated_ms, session)",
    """CREATE TABLE @corrupt_documents (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        at_ms int8 NOT NULL,
        reason text NOT NULL,
        document bytea NOT NULL
    )""",
    # Lost in a crash of the server, and learned again with the next request that has tools.
    """CREATE UNLOGGED TABLE @traits (
        owner text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        tools text COLLATE "C" NOT NULL,
        at_ms int8 NOT NULL,
        PRIMARY KEY (owner, session)
    )""",
    "CREATE INDEX traits_at ON @traits (at_ms)",
)
