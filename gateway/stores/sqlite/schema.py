"""The tables of a database, version by version.

One entry for each schema version, each a list of statements. Published entries never change.
"""

from __future__ import annotations

DOCUMENTS = (
    # The row number is the revision: AUTOINCREMENT never gives one twice, not even after a
    # deletion.
    """CREATE TABLE documents (
        revision INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        due_ms INTEGER,
        updated_ms INTEGER NOT NULL,
        document BLOB NOT NULL,
        UNIQUE (kind, owner, session)
    )""",
    "CREATE INDEX documents_due ON documents (kind, due_ms) WHERE due_ms IS NOT NULL",
    "CREATE INDEX documents_newest ON documents (kind, owner, updated_ms, session)",
    """CREATE TABLE corrupt_documents (
        kind TEXT NOT NULL,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        reason TEXT NOT NULL,
        document BLOB NOT NULL
    )""",
)

# Jobs and runs are JSON, with columns for queries.
JOBS = (
    """CREATE TABLE jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        job_id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        agent TEXT NOT NULL,
        dedupe_key TEXT NOT NULL,
        next_run_ms INTEGER,
        running INTEGER NOT NULL DEFAULT 0,
        job BLOB NOT NULL
    )""",
    "CREATE INDEX jobs_next ON jobs (next_run_ms) WHERE running = 0 AND next_run_ms IS NOT NULL",
    "CREATE INDEX jobs_of_session ON jobs (owner, session)",
    "CREATE UNIQUE INDEX jobs_dedupe ON jobs (owner, dedupe_key) WHERE dedupe_key <> ''",
    """CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        job_id TEXT NOT NULL,
        due_ms INTEGER NOT NULL,
        manual INTEGER NOT NULL,
        status TEXT NOT NULL,
        holder TEXT NOT NULL,
        lease_ms INTEGER NOT NULL,
        run BLOB NOT NULL
    )""",
    "CREATE INDEX runs_of_job ON runs (job_id)",
    # A manual run is due whenever somebody asks, which may be at a time of the schedule.
    "CREATE UNIQUE INDEX runs_due ON runs (job_id, due_ms) WHERE manual = 0",
    "CREATE UNIQUE INDEX runs_running ON runs (job_id) WHERE status = 'running'",
    "CREATE INDEX runs_leases ON runs (lease_ms) WHERE status = 'running'",
    # With a job of its own: a job that is deleted after its run still owes its result.
    """CREATE TABLE owed (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        job_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        job BLOB NOT NULL,
        run BLOB NOT NULL
    )""",
    "CREATE INDEX owed_of_job ON owed (job_id)",
    "CREATE INDEX owed_of_session ON owed (owner, session)",
    """CREATE TABLE corrupt_rows (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        reason TEXT NOT NULL,
        content BLOB NOT NULL
    )""",
)

CONVERSATIONS = (
    """CREATE TABLE conversations (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        agent TEXT NOT NULL,
        session TEXT NOT NULL,
        messages BLOB NOT NULL,
        updated_ms INTEGER NOT NULL,
        UNIQUE (owner, session, agent)
    )""",
    "CREATE INDEX conversations_newest ON conversations (owner, updated_ms, session, agent)",
    """CREATE TABLE snapshots (
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        dialect TEXT NOT NULL,
        model TEXT NOT NULL,
        body BLOB NOT NULL,
        answer TEXT NOT NULL,
        updated_ms INTEGER NOT NULL,
        headers BLOB NOT NULL,
        PRIMARY KEY (owner, session)
    )""",
    """CREATE TABLE locks (
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        token TEXT NOT NULL,
        reason TEXT NOT NULL,
        until_ms INTEGER NOT NULL,
        PRIMARY KEY (owner, session)
    )""",
)

DELIVERIES = (
    """CREATE TABLE items (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        text TEXT NOT NULL,
        job_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        name TEXT NOT NULL,
        delivered_ms INTEGER,
        UNIQUE (owner, session, id)
    )""",
    "CREATE INDEX items_pending ON items (owner, session, seq) WHERE delivered_ms IS NULL",
    "CREATE INDEX items_delivered ON items (delivered_ms) WHERE delivered_ms IS NOT NULL",
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (owner, session, kind, key)
    )""",
    "CREATE INDEX events_of_session ON events (owner, session, seq)",
    "CREATE INDEX events_of_owner ON events (owner, seq)",
    "CREATE INDEX events_oldest ON events (at_ms)",
    """CREATE TABLE interests (
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        PRIMARY KEY (owner, session)
    )""",
    "CREATE TABLE positions (name TEXT PRIMARY KEY, seq INTEGER NOT NULL)",
)

# Beside results, notices of jobs that failed for good or missed runs.
NOTICES = (
    "ALTER TABLE items ADD COLUMN status TEXT NOT NULL DEFAULT 'ok'",
    "ALTER TABLE items ADD COLUMN missed INTEGER NOT NULL DEFAULT 0",
)

# Counts are added to the row of their hour. With them, each writer keeps the number of its last
# batch, so that a batch whose answer was lost can be sent again.
USAGE = (
    """CREATE TABLE usage (
        owner TEXT NOT NULL,
        hour_ms INTEGER NOT NULL,
        model TEXT NOT NULL,
        upstream TEXT NOT NULL,
        exchanges INTEGER NOT NULL,
        turns INTEGER NOT NULL,
        reported_turns INTEGER NOT NULL,
        input INTEGER NOT NULL,
        cached INTEGER NOT NULL,
        output INTEGER NOT NULL,
        reasoning INTEGER NOT NULL,
        cost_micros INTEGER,
        PRIMARY KEY (owner, hour_ms, model, upstream)
    )""",
    "CREATE INDEX usage_hours ON usage (hour_ms)",
    """CREATE TABLE usage_writers (
        writer TEXT PRIMARY KEY,
        batch INTEGER NOT NULL,
        at_ms INTEGER NOT NULL
    )""",
    "CREATE INDEX usage_writers_oldest ON usage_writers (at_ms)",
)

# Runs are also listed over all jobs of an owner.
RUN_OWNERS = (
    "ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    """UPDATE runs SET owner = coalesce(
        (SELECT jobs.owner FROM jobs WHERE jobs.job_id = runs.job_id), '')""",
    "CREATE INDEX runs_of_owner ON runs (owner)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    DOCUMENTS,
    (*JOBS, *CONVERSATIONS, *DELIVERIES),
    NOTICES,
    USAGE,
    RUN_OWNERS,
)
