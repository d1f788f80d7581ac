"""Parts of statements that several tables share."""

from __future__ import annotations

# The time in microseconds; a number that begins with it is higher than any that was given before.
NUMBER_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# Some rows at a time, so that others do not wait for a long change.
PRUNED_AT_ONCE = 1000


def is_free(holder: str) -> str:
    """Write the condition that what this column names as holder does not live any more."""
    return f"""NOT EXISTS (SELECT 1 FROM @instances
        WHERE instances.id = {holder} AND NOT instances.buried)"""


def write_prune(table: str, condition: str) -> str:
    """Write the statement that deletes some rows, at most as many as its last value says."""
    place = condition.count("$") + 1
    return f"""DELETE FROM @{table} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM @{table} WHERE {condition} LIMIT ${place}))"""
