"""All that a store keeps is copied into another one, and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.stores import StoreUnavailable, open_documents, open_rows
from gateway.stores.copy_urls import open_copy_store
from gateway.stores.copying import (
    EVENTS,
    POSTS,
    TABLES,
    ComparedTable,
    CopiedTable,
    CopyStore,
    Row,
    compare,
    copy_tables,
    is_empty,
)
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.job_rows import RunQuery
from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.instances import SharedInstance
from tests.postgres.rows import PostgresRowBackend
from tests.postgres.server import make_schema_name, shared_pooler, shared_server

from .copies import fill, opened, settings_in
from .row_backends import NOON, due
from .shapes import SHAPES

SESSIONS = 1000
EMBEDDED = "embedded"


class Place:
    """Where a store is."""

    def __init__(self, name: str, directory: Path) -> None:
        urls = {"sqlite": f"sqlite://{directory}/all.sqlite3", "embedded": EMBEDDED}
        if name == "postgres":
            urls[name] = shared_server().url
        elif name == "pooled":
            urls[name] = shared_pooler().url
        self.url = urls[name]
        self.settings = settings_in(directory, make_schema_name())


def tell_nobody(name: str, copied: int) -> None:
    pass


async def copy(source: Place, target: Place) -> list[ComparedTable]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(source.url, source.settings, is_source=True))
        second = await stack.enter_async_context(
            opened(target.url, target.settings, is_source=False)
        )
        assert await is_empty(second)
        await copy_tables(first, second, tell_nobody)
        return await compare(first, second)


@pytest.fixture
async def full(tmp_path: Path) -> Place:
    await fill(tmp_path / "full", SESSIONS)
    return Place(EMBEDDED, tmp_path / "full")


@pytest.mark.parametrize("name", ["sqlite", "postgres", "pooled"])
async def test_all_is_copied_and_copied_back(name: str, full: Place, tmp_path: Path) -> None:
    middle, last = Place(name, tmp_path), Place(EMBEDDED, tmp_path / "last")
    there = await copy(full, middle)
    back = await copy(middle, last)
    for compared in (there, back):
        assert [one.name for one in compared] == [table.name for table in TABLES]
        assert all(one.is_same for one in compared), compared
    assert {one.name: one.source.rows for one in there} == {
        "documents": SESSIONS + 1,
        "jobs": 40,
        "runs": 40,
        "owed": 20,
        "conversations": 40,
        "snapshots": 40,
        "items": 159,
        "events": 159,
        "interests": 40,
        "posts": 94,
        "usage": 1,
        "usage_writers": 1,
    }
    # From the first to the last, all is equal, too.
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(full.url, full.settings, is_source=True))
        second = await stack.enter_async_context(opened(last.url, last.settings, is_source=True))
        assert all(one.source == one.target for one in await compare(first, second))


class Interrupted(Exception):
    """The copy was stopped."""


class StoppingCopy:
    """A store that takes only so many pages."""

    def __init__(self, store: CopyStore, pages: int) -> None:
        self._store = store
        self._pages = pages
        self.inexact = store.inexact

    async def check_alone(self) -> None:
        await self._store.check_alone()

    async def read(self, table: CopiedTable, after: Row | None) -> list[Row]:
        return await self._store.read(table, after)

    async def write(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        if not self._pages:
            raise Interrupted
        self._pages -= 1
        await self._store.write(table, rows)

    async def finish(self) -> None:
        raise Interrupted

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("name", ["sqlite", "embedded", "postgres"])
async def test_an_interrupted_copy_goes_on(name: str, tmp_path: Path) -> None:
    await fill(tmp_path / "full", 40)
    source, target = Place(EMBEDDED, tmp_path / "full"), Place(name, tmp_path / "target")
    async with opened(source.url, source.settings, is_source=True) as first:
        for pages in (0, 1, 2, 5, 9, 99):
            async with opened(target.url, target.settings, is_source=False) as second:
                with pytest.raises(Interrupted):
                    await copy_tables(first, StoppingCopy(second, pages), tell_nobody)
        async with opened(target.url, target.settings, is_source=False) as second:
            assert not await is_empty(second)
            await copy_tables(first, second, tell_nobody)
            assert all(one.is_same for one in await compare(first, second))


async def test_what_differs_is_seen(tmp_path: Path) -> None:
    await fill(tmp_path / "full", 40)
    source, target = Place(EMBEDDED, tmp_path / "full"), Place("sqlite", tmp_path)
    await copy(source, target)
    documents = await open_documents(target.url, tmp_path, SHAPES)
    rows = await open_rows(target.url, tmp_path, documents)
    await rows.conversations.forget("local", "s 2")
    await rows.deliveries.deliver("local", "s 2", ("i0",))
    await rows.aclose()
    await documents.aclose()
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(opened(source.url, source.settings, is_source=True))
        second = await stack.enter_async_context(
            opened(target.url, target.settings, is_source=True)
        )
        different = [one.name for one in await compare(first, second) if not one.is_same]
    assert different == ["conversations", "snapshots", "items"]


async def test_numbers_that_are_taken_keep_the_order_of_each_session(tmp_path: Path) -> None:
    """PostgreSQL numbers the events of each session, a file those of all together."""
    page: list[Row] = [
        ("ann", session, seq, "kind", f"{seq}", NOON, b"{}")
        for session in "ab"
        for seq in (7, 8, 9)
    ]
    place = Place("sqlite", tmp_path)
    async with opened(place.url, place.settings, is_source=False) as store:
        await store.write(EVENTS, page)
        await store.write(EVENTS, page)
        read = await store.read(EVENTS, None)
    assert [(row[1], row[2], row[4]) for row in read] == [
        *(("a", 7, "7"), ("a", 8, "8"), ("a", 9, "9")),
        *(("b", 10, "7"), ("b", 11, "8"), ("b", 12, "9")),
    ]


async def test_a_posted_event_is_not_posted_again(tmp_path: Path) -> None:
    """The positions of webhooks in a file become posts, and posts become positions."""
    await fill(tmp_path / "full", 40)
    full, middle = Place(EMBEDDED, tmp_path / "full"), Place("postgres", tmp_path)
    await copy(full, middle)
    async with opened(middle.url, middle.settings, is_source=True) as store:
        hooks = {row[0] for row in await store.read(POSTS, None)}
    assert hooks == {"webhook:of-ann"}
    last = Place(EMBEDDED, tmp_path / "last")
    await copy(middle, last)
    documents = await open_documents("", tmp_path / "last", SHAPES)
    rows = await open_rows("", tmp_path / "last", documents)
    assert rows.event_log is not None
    waiting = await rows.event_log.position("webhook:of-ann")
    newest = await rows.event_log.last_event("ann", "")
    assert waiting < newest
    assert [await rows.event_log.position(f"webhook:{name}") for name in ("silent", "new")] == [
        newest,
        newest,
    ]
    await rows.aclose()
    await documents.aclose()


async def test_what_can_not_be_read_is_not_left_out_silently(tmp_path: Path) -> None:
    await fill(tmp_path / "full", 2)
    newer = tmp_path / "full" / "clock" / "newer.json"
    newer.write_text('{"version":99,"owner":"local","sessionId":"newer"}')
    source, target = Place(EMBEDDED, tmp_path / "full"), Place("sqlite", tmp_path)
    with pytest.raises(StoreUnavailable, match=r"newer\.json"):
        await copy(source, target)


@pytest.mark.parametrize("url", ["embedded:///nowhere/at/all", "sqlite:///nowhere/at/all.db"])
async def test_a_source_has_to_be_there(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await open_copy_store(url, settings_in(tmp_path), is_source=True)
    with pytest.raises(StoreUnavailable, match='No store is known as "redis"'):
        await open_copy_store("redis://", settings_in(tmp_path), is_source=False)


async def test_a_database_that_a_gateway_uses_is_refused(tmp_path: Path) -> None:
    place = Place("postgres", tmp_path)
    async with opened(place.url, place.settings, is_source=False):
        pass
    database = Database(Connector(place.url, place.settings.schema), 1, lambda *_, **__: None)
    await database.start()
    instance = SharedInstance(600_000, "host", "build", lambda *_, **__: None)
    await database.use(instance.beat)
    with pytest.raises(StoreUnavailable, match="1 gateways use the database"):
        async with opened(place.url, place.settings, is_source=True):
            pass
    await database.use(instance.leave)
    async with opened(place.url, place.settings, is_source=True):
        pass
    await database.aclose()


async def test_a_run_that_was_cut_is_ended_by_the_next_gateway(tmp_path: Path) -> None:
    await fill(tmp_path / "full", 4)
    target = Place("postgres", tmp_path)
    await copy(Place(EMBEDDED, tmp_path / "full"), target)
    backend = PostgresRowBackend(schema=target.settings.schema)
    async with backend.opened() as rows:
        (former,) = [one for one in await rows.jobs.runs("job0", 9) if one.status == "running"]

        def end(of: Job, cut: Run) -> tuple[Job, Run]:
            return replace(of, run_id=""), replace(cut, status="interrupted")

        (ended,) = await rows.jobs.end_lapsed(0, end)
        assert (ended.run_id, ended.status) == (former.run_id, "interrupted")
        claimed = await rows.jobs.claim(NOON, "", 0, due, 10)
        assert "job0" in {one.job.job_id for one in claimed}
        numbers = [number for number, _ in await rows.jobs.list_runs(RunQuery(limit=9))]
        assert numbers == sorted(numbers, reverse=True)
        # Somebody listens to these sessions, so they hear when a reminder is due.
        (row,) = await rows.database.ask("SELECT count(*) FROM @documents WHERE ready_ms = due_ms")
        assert row["count"] == 2
        item = OutboxItem("new", "ann", "s 1", NOON, "text")
        assert (await rows.deliveries.add(item)).seq > max(
            one.seq for one in await rows.deliveries.pending("ann", "s 1") if one.id != "new"
        )
