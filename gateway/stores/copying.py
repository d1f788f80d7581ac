"""Copies all that one store keeps into another, while no gateway uses either of them.

Each kind of store reads and writes the same tables, whatever its own look like. Rows that are there
already stay, so a copy that was interrupted can go on. In the end both stores are read once more,
and must have the same rows.

Numbers that only order rows may differ: a store that numbers all rows of a table gives a row the
next number if its own is taken. So the digest of a row has its place in the order instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

Value = str | bytes | int | None
Row = tuple[Value, ...]
Tell = Callable[[str, int], None]
"""Hears of a table and how many of its rows were copied so far."""

DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table as stores exchange it: its rows are read in the order of the key."""

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    number: str = ""
    """The column of the key that only orders rows, among those that are equal before it."""
    page: int = 500
    """How many rows are read and written at once."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row."""
        return self.key + self.values


COUNTS = ("exchanges", "turns", "reported_turns", "input", "cached", "output", "reasoning")

DOCUMENTS = CopiedTable(
    "documents", ("owner", "session", "kind"), ("updated_ms", "due_ms", "document"), page=100
)
JOBS = CopiedTable(
    "jobs",
    ("number", "owner", "job_id"),
    ("session", "agent", "dedupe_key", "next_run_ms", "running_id", "job"),
    "number",
)
RUNS = CopiedTable(
    "runs",
    ("owner", "job_id", "number"),
    ("run_id", "due_ms", "manual", "status", "run"),
    "number",
    page=100,
)
OWED = CopiedTable(
    "owed", ("number", "owner", "run_id"), ("job_id", "session", "job", "run"), "number", page=100
)
CONVERSATIONS = CopiedTable(
    "conversations", ("owner", "session", "agent"), ("updated_ms", "messages"), page=4
)
SNAPSHOTS = CopiedTable(
    "snapshots",
    ("owner", "session"),
    ("dialect", "model", "body", "answer", "updated_ms", "headers"),
    page=4,
)
ITEMS = CopiedTable(
    "items",
    ("owner", "session", "seq"),
    ("id", "at_ms", "text", "job_id", "run_id", "name", "status", "missed", "delivered_ms"),
    "seq",
    page=100,
)
EVENTS = CopiedTable(
    "events", ("owner", "session", "seq"), ("kind", "key", "at_ms", "data"), "seq", page=100
)
INTERESTS = CopiedTable("interests", ("owner", "session"), ("at_ms",))
POSTS = CopiedTable("posts", ("hook", "owner", "session", "seq"), ("kind", "key"), "seq")
USAGE = CopiedTable("usage", ("owner", "hour_ms", "model", "upstream"), (*COUNTS, "cost_micros"))
USAGE_WRITERS = CopiedTable("usage_writers", ("writer",), ("batch", "at_ms"))

# What refers to others comes after them.
TABLES = (
    DOCUMENTS,
    JOBS,
    RUNS,
    OWED,
    CONVERSATIONS,
    SNAPSHOTS,
    ITEMS,
    EVENTS,
    INTERESTS,
    POSTS,
    USAGE,
    USAGE_WRITERS,
)


class CopyStore(Protocol):
    """A store as its content is copied from it or into it."""

    inexact: frozenset[str]
    """Names of tables that it can not keep exactly; they are not compared."""

    async def check_alone(self) -> None:
        """Raise `StoreUnavailable` if a gateway uses the store."""

    async def read(self, table: CopiedTable, after: Row | None) -> list[Row]:
        """Return the next page of rows after a key, in the order of keys."""

    async def write(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        """Add rows; those that are there already stay as they are."""

    async def finish(self) -> None:
        """Write what follows from all rows."""

    async def aclose(self) -> None:
        """Finish what was submitted, and let go of the store."""


class TableDigest(NamedTuple):
    """How many rows a table has, and a digest of them in which their order has no part."""

    rows: int
    digest: str


class ComparedTable(NamedTuple):
    """A table in both stores."""

    name: str
    source: TableDigest
    target: TableDigest
    is_exact: bool

    @property
    def is_same(self) -> bool:
        """Whether the target has what the source has, as far as it can keep it."""
        return not self.is_exact or self.source == self.target


async def is_empty(store: CopyStore) -> bool:
    """Return whether a store keeps nothing."""
    return not any([await store.read(table, None) for table in TABLES])


async def copy_tables(source: CopyStore, target: CopyStore, tell: Tell) -> None:
    """Copy all rows that the target does not have yet."""
    for table in TABLES:
        copied = 0
        async with aclosing(_read_pages(source, table)) as pages:
            async for rows in pages:
                await target.write(table, rows)
                copied += len(rows)
                tell(table.name, copied)
    await target.finish()


async def compare(source: CopyStore, target: CopyStore) -> list[ComparedTable]:
    """Read both stores, and return what they have in each table."""
    return [
        ComparedTable(
            table.name,
            await digest_table(source, table),
            await digest_table(target, table),
            table.name not in source.inexact | target.inexact,
        )
        for table in TABLES
    ]


async def digest_table(store: CopyStore, table: CopiedTable) -> TableDigest:
    """Read a table, and return its digest."""
    found, total, places = 0, 0, _RowPlaces(table)
    async with aclosing(_read_pages(store, table)) as pages:
        async for rows in pages:
            found += len(rows)
            for row in rows:
                told = hashlib.sha256(msgspec.msgpack.encode(places.put(row))).digest()
                total += int.from_bytes(told)
    # A sum, since two stores may sort the same rows in different orders.
    return TableDigest(found, (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES).hex())


async def _read_pages(store: CopyStore, table: CopiedTable) -> AsyncGenerator[list[Row]]:
    after: Row | None = None
    while rows := await store.read(table, after):
        yield rows
        after = rows[-1][: len(table.key)]


class _RowPlaces:
    """Puts the place of each row among its group where its number is."""

    def __init__(self, table: CopiedTable) -> None:
        self._column = table.key.index(table.number) if table.number else None
        self._group: Row | None = None
        self._place = 0

    def put(self, row: Row) -> Row:
        """Return a row with its place."""
        column = self._column
        if column is None:
            return row
        if row[:column] != self._group:
            self._group, self._place = row[:column], 0
        self._place += 1
        return (*row[:column], self._place, *row[column + 1 :])
