"""The log of events: each reader sees each event once, in order, whatever breaks in between."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Draining, TooMany
from gateway.outbox.feed import Feed
from gateway.stores.delivery_rows import SessionEvent
from tests.outbox.house import OWNER, SESSION, WEEK, House, build, living
from tests.outbox.ledger import Ledger
from tests.run import until


class Reader:
    """Somebody who reads a session's events, is cut off now and then, and comes back."""

    def __init__(self, feed: Feed, session: str = SESSION) -> None:
        self._feed = feed
        self._session = session
        self._scope: anyio.CancelScope | None = None
        self.keys: list[str] = []
        self.last: int | None = None
        self.started = anyio.Event()

    async def read(self) -> None:
        """Subscribe behind what was read last, and read until cut off."""
        with anyio.CancelScope() as self._scope:
            with self._feed.subscribe(OWNER, self._session) as subscription:
                await subscription.begin(self.last)
                self.last = subscription.after
                self.started.set()
                async with aclosing(subscription.events()) as events:
                    async for event in events:
                        self._take(event)

    def _take(self, event: SessionEvent) -> None:
        self.keys.append(event.key)
        self.last = event.seq

    def cut(self) -> None:
        """Lose the connection."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    async def saw(self, *keys: str) -> None:
        """Wait until just these events were read."""
        await until(lambda: len(self.keys) >= len(keys))
        assert self.keys == list(keys)


STEPS = st.lists(
    st.sampled_from(["publish", "publish elsewhere", "connect", "cut", "pause", "publish twice"]),
    max_size=40,
)


@given(steps=STEPS, pause=st.integers(1, 6))
def test_any_interleaving_shows_each_event_once_and_in_order(steps: list[str], pause: int) -> None:
    anyio.run(play, ["connect", "settle", *steps], pause)


async def play(steps: list[str], pause: int) -> None:
    house = build(Ledger())
    reader, published = Reader(house.feed), []
    async with anyio.create_task_group() as tasks:
        for number, step in enumerate([*steps, "cut", "connect", "publish"]):
            if step == "connect":
                reader.cut()
                tasks.start_soon(reader.read)
            elif step == "cut":
                reader.cut()
            elif step == "settle":
                await reader.started.wait()
            elif step == "publish elsewhere":
                await house.happen(str(number), session="another")
            elif step.startswith("publish"):
                published.append(str(number))
                for _ in range(2 if step == "publish twice" else 1):
                    tasks.start_soon(house.happen, str(number))
            for _ in range(pause if step == "pause" else 1):
                await anyio.lowlevel.checkpoint()
        await until(lambda: len(reader.keys) >= len(published))
        reader.cut()
    assert reader.keys == published


async def test_a_reader_sees_what_comes_after_it(house: House) -> None:
    await house.happen("before")
    reader = Reader(house.feed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read)
        await reader.started.wait()
        await house.happen("one")
        await house.happen("elsewhere", session="another")
        await house.happen("somebody else's", owner="bob")
        await house.happen("two")
        await reader.saw("one", "two")
        reader.cut()


async def test_a_long_log_is_read_page_by_page(house: House) -> None:
    keys = [str(number) for number in range(350)]
    for key in keys:
        await house.happen(key)
    reader = Reader(house.feed)
    reader.last = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read)
        await reader.saw(*keys)
        reader.cut()


async def test_a_place_that_is_from_another_log_begins_at_the_beginning(house: House) -> None:
    await house.happen("one")
    reader = Reader(house.feed)
    reader.last = 10_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read)
        await reader.saw("one")
        reader.cut()


async def test_an_event_is_kept_once_for_each_kind_and_key(house: House) -> None:
    for kind in ("run.started", "run.finished", "run.started"):
        assert await house.feed.publish(OWNER, SESSION, kind, "r1", {})
    assert await house.published() == [("run.started", "r1"), ("run.finished", "r1")]


async def test_kinds_are_from_a_fixed_set(house: House) -> None:
    with pytest.raises(ValueError, match=r"run\.lost"):
        await house.feed.publish(OWNER, SESSION, "run.lost", "r1", {})


async def test_a_store_that_is_down_is_noted_and_hurts_nobody() -> None:
    rows = Ledger()
    async with living(rows) as house:
        rows.fails = True
        assert not await house.feed.publish(OWNER, SESSION, "run.started", "r1", {})
        assert house.notes.of("event_not_kept")[0]["why"] == "The disk is gone."


async def test_an_owner_has_so_many_subscriptions() -> None:
    async with living(most=2) as house:
        feed = house.feed
        with feed.subscribe("ann", "s"), feed.subscribe("ann", "t"):
            with pytest.raises(TooMany) as refused, feed.subscribe("ann", "u"):
                pass
            assert refused.value.retry_after == 1
            with feed.subscribe("bob", "s"):
                assert len(feed.subscribers) == 3
        with feed.subscribe("ann", "s"):
            assert feed.open == {("ann", "s"): 1}
        assert not feed.open
        assert len(feed.subscribers) == 0


async def test_when_the_gateway_leaves_readers_end_and_none_begins(house: House) -> None:
    reader = Reader(house.feed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read)
        await reader.started.wait()
        house.feed.drain()
    with pytest.raises(Draining), house.feed.subscribe(OWNER, SESSION):
        pass


async def test_what_is_a_week_old_is_forgotten(house: House) -> None:
    await house.happen("old")
    house.clock.advance(WEEK)
    await house.happen("new")
    house.clock.advance(1)
    await house.due_notifier.refresh()
    assert await house.published() == [("run.finished", "new")]
