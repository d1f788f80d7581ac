"""What is due, what is new, and who hears of a change, in every store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import anyio
import pytest

from gateway.stores import Conflict, DocumentKey, Documents, Listed, SealedDocument, fetch, update

from .conftest import Backend
from .shapes import CLOCK, SESSION, cleared, clock, plus_one


async def test_what_is_due_comes_in_order(store: Documents) -> None:
    for session, due_ms in (("late", 300), ("early", 100), ("middle", 200), ("never", None)):
        await update(store, clock(session), partial(replace, text="x", due_ms=due_ms), CLOCK)
    await update(
        store, DocumentKey("session", "local", "other"), partial(replace, due_ms=1), SESSION
    )
    assert [key.session for key in await store.due("clock", 300, 10)] == ["early", "middle"]
    assert [key.session for key in await store.due("clock", 301, 10)] == ["early", "middle", "late"]
    assert await store.due("clock", 301, 1) == [clock("early")]
    await update(store, clock("early"), partial(replace, due_ms=250), CLOCK)
    await update(store, clock("middle"), partial(replace, due_ms=None), CLOCK)
    await store.delete(clock("late"))
    assert await store.due("clock", 1000, 10) == [clock("early")]
    assert await store.due("nothing", 1000, 10) == []


async def test_what_is_due_beyond_all_numbers(store: Documents) -> None:
    await update(store, clock("a"), partial(replace, due_ms=10**30), CLOCK)
    assert await store.due("clock", 10**15, 10) == []
    assert (await fetch(store, clock("a"), CLOCK)).due_ms == 10**30


async def test_listing_pages_newest_first(store: Documents) -> None:
    for session in ("a", "b", "c", "d", "e"):
        await update(store, clock(session), plus_one, CLOCK)
    await update(store, clock("b"), plus_one, CLOCK)
    await update(store, clock("x", "ann"), plus_one, CLOCK)
    await store.delete(clock("d"))
    pages: list[list[str]] = []
    after: Listed | None = None
    while page := await store.listing("clock", "local", after, 2):
        pages.append([listed.session for listed in page])
        after = page[-1]
    assert pages == [["b", "e"], ["c", "a"]]
    assert [listed.session for listed in await store.listing("clock", "ann", None, 9)] == ["x"]
    assert await store.listing("clock", "bob", None, 9) == []


async def test_listing_pages_what_has_the_same_time(store: Documents) -> None:
    sessions = [f"s{number}" for number in range(7)]
    for session in sessions:
        await store.write(clock(session), SealedDocument(b"x", 5), 0)
    found: list[str] = []
    after: Listed | None = None
    while page := await store.listing("clock", "local", after, 3):
        found += [listed.session for listed in page]
        after = page[-1]
    assert found == sorted(sessions, reverse=True)


async def test_when_sessions_were_written_and_whose_they_are(
    backend: Backend, store: Documents
) -> None:
    odd = "\0 🦆" if backend.may_hold("\0 🦆") else "🦆"
    for session, at_ms in (("a", 5), ("b", 7), (odd, 9)):
        await store.write(clock(session), SealedDocument(b"x", at_ms), 0)
    await store.write(clock("a", "ann"), SealedDocument(b"x", 6), 0)
    await store.write(DocumentKey("session", "bob", "a"), SealedDocument(b"x", 8), 0)
    await store.delete(clock("b"))
    names = ["a", "b", "c", odd]
    assert await store.find_updated("clock", "local", names) == {"a": 5, odd: 9}
    assert await store.find_updated("clock", "ann", names) == {"a": 6}
    assert await store.find_updated("clock", "bob", names) == {}
    many = [str(number) for number in range(5000)]
    assert await store.find_updated("clock", "local", [*many, "a"]) == {"a": 5}
    assert sorted(await store.list_owners("clock")) == ["ann", "local"]
    await store.delete(clock("a", "ann"))
    assert await store.list_owners("clock") == ["local"]
    assert await store.list_owners("nothing") == []


async def test_watching(store: Documents) -> None:
    calls: list[str] = []

    def second() -> None:
        calls.append("second")

    stop = store.watch(clock("a"), lambda: calls.append("first"))
    for _ in range(2):
        store.watch(clock("a"), second)
    store.watch(clock("b"), lambda: calls.append("other"))

    async def heard() -> list[str]:
        await anyio.wait_all_tasks_blocked()
        said = calls.copy()
        calls.clear()
        return said

    await update(store, clock("a"), plus_one, CLOCK)
    assert await heard() == ["first", "second", "second"]
    await update(store, clock("a"), lambda notes: notes, CLOCK)
    with pytest.raises(Conflict):
        await store.write(clock("a"), SealedDocument(b"x", 1), 0)
    assert await heard() == []
    stop()
    stop()
    await update(store, clock("a"), cleared, CLOCK)
    assert await heard() == ["second", "second"]
    await store.delete(clock("a"))
    assert await heard() == []


async def test_a_watcher_that_fails_hurts_only_itself(store: Documents) -> None:
    def fail() -> None:
        raise LookupError("a bug")

    failures: list[object] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    heard = anyio.Event()
    store.watch(clock("a"), fail)
    store.watch(clock("a"), heard.set)
    await update(store, clock("a"), plus_one, CLOCK)
    await heard.wait()
    loop.set_exception_handler(before)
    assert [type(failure) for failure in failures] == [LookupError]
