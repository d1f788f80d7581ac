"""Statements on PostgreSQL name the owner of what they read or change, and use an index."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import gateway.stores.postgres as package
from gateway.stores.postgres import conversations, deliveries, job_claims, job_table, run_ends
from gateway.stores.postgres.migrations import FIRST

from .rows import OpenedRows, PostgresRowBackend

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
# What is somebody's: the tables whose key begins with the owner.
OWNED = frozenset(
    name
    for statement in FIRST.statements
    if (found := re.search(r"CREATE (?:UNLOGGED )?TABLE @(\w+)", statement))
    if re.search(r"^\s*owner ", statement, re.M)
    for name in [found[1]]
)
# Claims, burial, chores and what only admins ask for.
OF_ALL_OWNERS = {
    "job_table.NEXT": "when the scheduler looks again",
    "job_claims.WAS_STORED": "by the ids of runs that this instance made",
    "jobs.IS_HELD": "by the id of a run that this instance made",
    "run_ends.LOCK_DEBT": "by the id of a run whose result this instance took",
    "run_lists.PAGE": "its conditions name the owner, except for admins",
    "deliveries.PRUNE_EVENTS": "a chore",
    "deliveries.PRUNE_ITEMS": "a chore",
    "deliveries.PRUNE_INTERESTS": "a chore",
    "posts.NEXT": "when the posts of configured hooks are due",
    "posts.PRUNE": "a chore",
    "usage.PRUNE": "a chore",
    "announcements.NEXT": "when reminders of any session are to be announced",
    "chores.PRUNE_ENDINGS": "a chore",
    "operators.PRUNE_COUNTS": "a chore",
    "operators.PRUNE_INSTANCES": "a chore",
    "operators.PRUNE_TRAITS": "a chore",
}


def list_statements() -> Iterator[tuple[str, str]]:
    """Return the statements of all modules with their names."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.endswith("_tables") or module.name in ("migrations", "statements"):
            continue
        found = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
        for name, value in found.items():
            many = value.values() if isinstance(value, dict) else value
            texts = many if isinstance(value, dict | tuple) else (value,)
            for text in texts:
                if isinstance(text, str) and text.lstrip().startswith(VERBS):
                    yield f"{module.name}.{name}", text


def test_every_statement_names_the_owner() -> None:
    assert {"jobs", "runs", "items", "events", "talks", "documents"} <= OWNED
    unnamed = {
        name
        for name, text in list_statements()
        if OWNED.intersection(re.findall(r"@(\w+)", text))
        if not re.search(r"\bowner\b", text)
    }
    assert unnamed - set(OF_ALL_OWNERS) == set()


FILL = (
    """INSERT INTO @jobs (owner, job_id, number, session, agent, dedupe_key, next_run_ms, job)
    SELECT 'o' || n % 50, 'j' || n, n, 's' || n, '', '', n, '{}' FROM generate_series(1, 5000) n""",
    """INSERT INTO @talks (owner, session, agent, number, is_newest, updated_ms, token, messages)
    SELECT 'o' || n % 50, 's' || n, 'a', n, true, n, '', '[]' FROM generate_series(1, 20000) n""",
    """INSERT INTO @items (owner, session, seq, id, at_ms, text, job_id, run_id, name, status,
        missed, delivered_ms)
    SELECT 'o' || n % 50, 's' || n % 5000, n, 'i' || n, n, '', '', '', '', 'ok', 0,
        CASE WHEN n % 20 > 0 THEN n END FROM generate_series(1, 20000) n""",
    """INSERT INTO @events (owner, session, seq, kind, key, at_ms, data)
    SELECT 'o' || n % 50, 's' || n % 5000, n, 'k', 'e' || n, n, '{}'
    FROM generate_series(1, 20000) n""",
    """INSERT INTO @runs (owner, job_id, number, run_id, due_ms, manual, status, holder, run)
    SELECT 'o' || n % 50, 'j' || n % 5000, n, 'r' || n, n, false, 'ok', 'h', '{}'
    FROM generate_series(1, 20000) n""",
)
QUICK = {
    "due jobs": (job_claims.DUE, (10, 0, 0, "", 5)),
    "the next run": (job_table.NEXT, ()),
    "jobs of an owner": (job_table.LIST_OF_OWNER, ("o1", None, None)),
    "the newest conversations": (conversations.NEWEST, ("o1", 20)),
    "the next conversations": (conversations.NEXT, ("o1", 900, "s", 20)),
    "owners of conversations": (conversations.OWNERS, ()),
    "items that wait": (deliveries.PENDING, ("o1", "s1")),
    "events after one": (deliveries.EVENTS, ("o1", "s1", 5, 20)),
    "abandoned runs": (run_ends.ABANDONED, ()),
}


async def explain(rows: OpenedRows, statement: str, values: tuple[object, ...]) -> str:
    """Return how a statement is performed."""
    plan = await rows.database.ask(f"EXPLAIN {statement}", *values)
    return "\n".join(row[0] for row in plan)


async def test_lists_and_claims_read_no_whole_table() -> None:
    async with PostgresRowBackend().opened() as rows:
        for statement in (*FILL, "ANALYZE"):
            await rows.database.run(statement)
        for name, (statement, values) in QUICK.items():
            plan = await explain(rows, statement, values)
            assert not re.search(r"Seq Scan on (?!instances)", plan), f"{name}:\n{plan}"
