"""The tables of what owners used.

Counts are added to the row of their hour. With them, each writer keeps the number of its last
batch, so that a batch whose answer was lost can be sent again.
"""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE @usage (
        owner text COLLATE "C" NOT NULL,
        hour_ms bigint NOT NULL,
        model text COLLATE "C" NOT NULL,
        upstream text COLLATE "C" NOT NULL,
        exchanges bigint NOT NULL,
        turns bigint NOT NULL,
        reported_turns bigint NOT NULL,
        input bigint NOT NULL,
        cached bigint NOT NULL,
        output bigint NOT NULL,
        reasoning bigint NOT NULL,
        cost_micros bigint,
        PRIMARY KEY (owner, hour_ms, model, upstream)
    ) WITH (fillfactor = 70)
    """,
    "CREATE INDEX usage_hours ON @usage (hour_ms)",
    """
    CREATE TABLE @usage_writers (
        writer text COLLATE "C" PRIMARY KEY,
        batch bigint NOT NULL,
        at_ms bigint NOT NULL
    )
    """,
    "CREATE INDEX usage_writers_oldest ON @usage_writers (at_ms)",
)
