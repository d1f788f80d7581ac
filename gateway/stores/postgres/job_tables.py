"""The tables of jobs, their runs, and the results that are owed to sessions.

Jobs and runs are JSON, with columns for queries. The number of a run is made of the time, so that
runs of different jobs have an order, too; of one job, a later run always has a higher one.
"""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @jobs (
        owner text COLLATE "C" NOT NULL,
        job_id text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        session text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        dedupe_key bytea NOT NULL,
        next_run_ms bigint,
        run_id text COLLATE "C",
        rows bigint NOT NULL DEFAULT 0,
        job bytea NOT NULL,
        PRIMARY KEY (owner, job_id)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02)
    """,
    "CREATE UNIQUE INDEX jobs_id ON @jobs (job_id)",
    """
    CREATE INDEX jobs_next ON @jobs (next_run_ms, number)
        WHERE run_id IS NULL AND next_run_ms IS NOT NULL
    """,
    "CREATE INDEX jobs_of_session ON @jobs (owner, session)",
    "CREATE UNIQUE INDEX jobs_dedupe ON @jobs (owner, dedupe_key) WHERE dedupe_key <> ''",
    """
    CREATE TABLE @runs (
        owner text COLLATE "C" NOT NULL,
        job_id text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        due_ms bigint NOT NULL,
        manual boolean NOT NULL,
        status text NOT NULL,
        holder text COLLATE "C" NOT NULL,
        run bytea NOT NULL,
        PRIMARY KEY (owner, job_id, number)
    )
    """,
    "CREATE UNIQUE INDEX runs_id ON @runs (run_id)",
    # A manual run is due whenever somebody asks, which may be at a time of the schedule.
    "CREATE UNIQUE INDEX runs_due ON @runs (owner, job_id, due_ms) WHERE NOT manual",
    "CREATE UNIQUE INDEX runs_running ON @runs (owner, job_id) WHERE status = 'running'",
    "CREATE INDEX runs_held ON @runs (holder) WHERE status = 'running'",
    "CREATE INDEX runs_of_owner ON @runs (owner, number)",
    "CREATE INDEX runs_newest ON @runs (number)",
    # With a job of its own: a job that is deleted after its run still owes its result.
    """
    CREATE TABLE @owed (
        owner text COLLATE "C" NOT NULL,
        run_id text COLLATE "C" NOT NULL,
        job_id text COLLATE "C" NOT NULL,
        session text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        holder text COLLATE "C",
        job bytea NOT NULL,
        run bytea NOT NULL,
        PRIMARY KEY (owner, run_id)
    )
    """,
    "CREATE INDEX owed_of_session ON @owed (owner, session, number)",
    # How many jobs each owner has; who adds one locks this row.
    """
    CREATE TABLE @owners (
        owner text COLLATE "C" PRIMARY KEY,
        jobs integer NOT NULL
    )
    """,
    """
    CREATE TABLE @corrupt_rows (
        kind text NOT NULL,
        id text COLLATE "C" NOT NULL,
        at_ms bigint NOT NULL,
        reason text NOT NULL,
        content bytea NOT NULL
    )
    """,
)
