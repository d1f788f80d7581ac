"""What waits for sessions, and what happened in them: one contract for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from gateway.stores import Rows
from gateway.stores.delivery_rows import DeliveryRows, OutboxItem, SessionEvent
from gateway.stores.postgres import deliveries as postgres_deliveries
from gateway.stores.postgres import news
from gateway.stores.sqlite import deliveries as deliveries_module

from .row_backends import (
    ALL,
    DURABLE,
    NAMES,
    NOON,
    AnyBackend,
    RowBackend,
    find_backend,
)


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AnyBackend:
    return find_backend(request.param, tmp_path)


@pytest.fixture
async def rows(backend: AnyBackend) -> AsyncIterator[Rows]:
    async with backend.opened() as opened:
        yield opened


@pytest.fixture
def deliveries(rows: Rows) -> DeliveryRows:
    return rows.deliveries


def item(item_id: str, session: str = "s", owner: str = "ann") -> OutboxItem:
    return OutboxItem(item_id, owner, session, 1, f"Result of {item_id}", "j", "r", "name")


def event(key: str, session: str = "s", owner: str = "ann", at_ms: int = 1) -> SessionEvent:
    return SessionEvent(owner, session, "run.finished", key, at_ms, b'{"a":"\xc3\xa7"}')


async def ids(deliveries: DeliveryRows, owner: str, session: str) -> list[str]:
    return [one.id for one in await deliveries.pending(owner, session)]


async def test_where_nothing_waits(deliveries: DeliveryRows) -> None:
    assert await deliveries.pending("ann", "s") == []
    assert await deliveries.waiting() == []
    assert await deliveries.deliver("ann", "s", ("a",)) == ()
    assert await deliveries.events("ann", "s", 0, 10) == []
    assert await deliveries.last_event("ann", "s") == 0
    assert await deliveries.prune(2**62) == 0
    assert await deliveries.interests() == []
    await deliveries.forget("ann", "s")


async def test_how_many_wait_and_what_was_delivered(
    backend: AnyBackend, deliveries: DeliveryRows
) -> None:
    assert await deliveries.count_waiting(None) == []
    for one in (item("a"), replace(item("b"), at_ms=7), item("c", "t"), item("d", owner="bob")):
        await deliveries.add(one)
    counts = [("ann", "s", 2, 7), ("ann", "t", 1, 1), ("bob", "s", 1, 1)]
    assert sorted(await deliveries.count_waiting(None)) == counts
    assert sorted(await deliveries.count_waiting("ann")) == counts[:2]
    assert await deliveries.list_delivered("ann", "s", 9) == []
    await deliveries.deliver("ann", "s", ("b",))
    backend.now_ms += 1
    await deliveries.deliver("ann", "s", ("a",))
    found = await deliveries.list_delivered("ann", "s", 9)
    assert [(one.item.id, one.delivered_ms - NOON) for one in found] == [("a", 1), ("b", 0)]
    assert len(await deliveries.list_delivered("ann", "s", 1)) == 1
    assert await deliveries.count_waiting("ann") == [counts[1]]
    assert await deliveries.list_delivered("bob", "s", 9) == []


async def test_items_wait_in_order(deliveries: DeliveryRows) -> None:
    kept = [await deliveries.add(item(name)) for name in "cab"]
    assert await deliveries.pending("ann", "s") == kept
    assert [replace(one, seq=0) for one in kept] == [item(name) for name in "cab"]
    assert kept[0].seq < kept[1].seq < kept[2].seq


async def test_the_same_item_twice_is_one(deliveries: DeliveryRows) -> None:
    first = await deliveries.add(item("a"))
    await deliveries.add(item("b"))
    assert await deliveries.add(replace(item("a"), text="Another.")) == first
    assert await ids(deliveries, "ann", "s") == ["a", "b"]
    # Also when it was delivered meanwhile.
    assert await deliveries.deliver("ann", "s", ("a",)) == ("a",)
    assert await deliveries.add(item("a")) == first
    assert await ids(deliveries, "ann", "s") == ["b"]


async def test_items_are_delivered_once(deliveries: DeliveryRows) -> None:
    for name in "abcd":
        await deliveries.add(item(name))
    assert await deliveries.deliver("ann", "s", ("d", "x", "b", "b")) == ("d", "b")
    assert await deliveries.deliver("ann", "s", ("b", "c")) == ("c",)
    assert await ids(deliveries, "ann", "s") == ["a"]


async def test_sessions_are_apart(deliveries: DeliveryRows) -> None:
    for whose in (("s", "ann"), ("t", "ann"), ("s", "bob")):
        await deliveries.add(item("a", *whose))
    assert await deliveries.deliver("ann", "s", ("a",)) == ("a",)
    assert set(await deliveries.waiting()) == {("ann", "t"), ("bob", "s")}
    await deliveries.note(event("k", "t"))
    await deliveries.note_interest("ann", "t", 1)
    await deliveries.note_interest("bob", "s", 1)
    await deliveries.forget("ann", "t")
    assert await deliveries.waiting() == [("bob", "s")]
    assert await deliveries.events("ann", "t", 0, 10) == []
    assert await deliveries.interests() == [("bob", "s")]


async def test_of_many_who_deliver_at_once_one_does(deliveries: DeliveryRows) -> None:
    await deliveries.add(item("a"))
    done: list[str] = []

    async def deliver() -> None:
        done.extend(await deliveries.deliver("ann", "s", ("a",)))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(deliver)
    assert done == ["a"]


async def test_events_are_numbered_as_they_happen(deliveries: DeliveryRows) -> None:
    noted = [await deliveries.note(event(str(number))) for number in range(5)]
    found = await deliveries.events("ann", "s", 0, 10)
    assert found == noted
    assert [one.key for one in found] == ["0", "1", "2", "3", "4"]
    assert await deliveries.events("ann", "s", found[1].seq, 2) == found[2:4]
    assert await deliveries.events("ann", "s", found[4].seq, 2) == []
    assert await deliveries.last_event("ann", "s") == found[4].seq


async def test_an_event_happens_once(deliveries: DeliveryRows) -> None:
    assert await deliveries.note(event("k")) is not None
    assert await deliveries.note(replace(event("k"), at_ms=9)) is None
    others = [event("k", "t"), event("k", "s", "bob"), replace(event("k"), kind="run.started")]
    for other in others:
        assert await deliveries.note(other) is not None
    assert len(await deliveries.events("ann", "s", 0, 10)) == 2


async def test_of_a_long_log_the_newest_events_are_kept(
    deliveries: DeliveryRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (deliveries_module, news):
        monkeypatch.setattr(module, "MOST_EVENTS", 3)
    others = [await deliveries.note(event("k", *whose)) for whose in (("t",), ("s", "bob"))]
    noted = [await deliveries.note(event(str(number))) for number in range(7)]
    assert await deliveries.events("ann", "s", 0, 10) == noted[4:]
    assert await deliveries.note(event("6")) is None
    assert await deliveries.events("ann", "s", 0, 10) == noted[4:]
    assert await deliveries.events("ann", "t", 0, 10) == others[:1]
    assert await deliveries.events("bob", "s", 0, 10) == others[1:]


@pytest.mark.parametrize("name", NAMES)
async def test_events_of_all_sessions_of_an_owner(tmp_path: Path, name: str) -> None:
    async with RowBackend(name, tmp_path).opened() as rows:
        log = rows.event_log
        assert log is not None
        assert await log.events_since("ann", 0, 10) == []
        for number in range(6):
            owner = "bob" if number == 3 else "ann"
            await rows.deliveries.note(event(str(number), f"s{number % 2}", owner))
        first = await log.events_since("ann", 0, 3)
        assert [one.key for one in first] == ["0", "1", "2"]
        rest = await log.events_since("ann", first[-1].seq, 10)
        assert [(one.key, one.session) for one in rest] == [("4", "s0"), ("5", "s1")]
        assert await log.last_event("bob", "other") == rest[-1].seq


@pytest.mark.parametrize("name", NAMES)
async def test_a_position_only_moves_on(tmp_path: Path, name: str) -> None:
    async with RowBackend(name, tmp_path).opened() as rows:
        log = rows.event_log
        assert log is not None
        assert await log.position("hook") == 0
        await log.move("hook", 7)
        await log.move("other", 1)
        await log.move("hook", 5)
        assert await log.position("hook") == 7
        await log.move("hook", 9)
        assert (await log.position("hook"), await log.position("other")) == (9, 1)


async def test_interests_are_renewed(deliveries: DeliveryRows) -> None:
    await deliveries.note_interest("ann", "s", 20)
    await deliveries.note_interest("ann", "t", 10)
    await deliveries.note_interest("ann", "s", 5)
    assert await deliveries.interests() == [("ann", "s"), ("ann", "t")]
    assert await deliveries.prune(20) == 1
    assert await deliveries.interests() == [("ann", "s")]


async def test_the_old_goes(backend: AnyBackend, deliveries: DeliveryRows) -> None:
    for name in "abc":
        await deliveries.add(item(name))
    await deliveries.deliver("ann", "s", ("a",))
    backend.now_ms = NOON + 10
    await deliveries.deliver("ann", "s", ("b",))
    await deliveries.note(event("old", at_ms=NOON))
    last = await deliveries.note(event("new", at_ms=NOON + 10))
    assert last is not None
    assert await deliveries.prune(NOON + 10) == 2
    # What nobody has heard of stays.
    assert await ids(deliveries, "ann", "s") == ["c"]
    assert await deliveries.events("ann", "s", 0, 10) == [last]
    assert await deliveries.prune(NOON + 11) == 2
    # Numbers are not given again.
    later = await deliveries.note(event("later"))
    assert later is not None
    assert later.seq > last.seq


async def test_much_that_is_old_goes_some_at_a_time(
    deliveries: DeliveryRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (deliveries_module, postgres_deliveries):
        monkeypatch.setattr(module, "PRUNED_AT_ONCE", 3)
    async with anyio.create_task_group() as tasks:
        for number in range(9):
            tasks.start_soon(deliveries.note, event(str(number)))
    assert await deliveries.prune(2) == 9


@pytest.mark.parametrize("name", DURABLE)
async def test_what_waits_is_found_again(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        first, second = [await rows.deliveries.add(item(name)) for name in "ab"]
        await rows.deliveries.deliver("ann", "s", (first.id,))
        noted = await rows.deliveries.note(event("k"))
        await rows.deliveries.note_interest("ann", "s", 1)
        assert rows.event_log is not None
        await rows.event_log.move("hook", 3)
    async with backend.opened() as rows:
        assert await rows.deliveries.pending("ann", "s") == [second]
        assert await rows.deliveries.waiting() == [("ann", "s")]
        assert await rows.deliveries.events("ann", "s", 0, 5) == [noted]
        assert await rows.deliveries.interests() == [("ann", "s")]
        assert rows.event_log is not None
        assert await rows.event_log.position("hook") == 3
