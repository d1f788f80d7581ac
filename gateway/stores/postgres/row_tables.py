"""The tables of all rows, in the order in which they are made."""

from __future__ import annotations

from gateway.stores.postgres import (
    chore_tables,
    conversation_tables,
    delivery_tables,
    job_tables,
    operator_tables,
    usage_tables,
)

TABLES = (
    *job_tables.TABLES,
    *delivery_tables.TABLES,
    *conversation_tables.TABLES,
    *usage_tables.TABLES,
    *chore_tables.TABLES,
    *operator_tables.TABLES,
)
