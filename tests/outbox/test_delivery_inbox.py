"""The inbox: one list of what waits, a cursor that misses nothing, and receipts."""

from __future__ import annotations

import json

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.outbox.inbox import MOST_SHOWN_CHARACTERS, Page, Seen, read_cursor
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.model import ReminderRequest, Rules
from tests.outbox.house import MINUTE, NOW, OWNER, SESSION, House, build, living
from tests.outbox.ledger import Ledger
from tests.run import until


async def look(house: House, seen: Seen | None = None, session: str = SESSION) -> Page:
    return await house.inbox.look(OWNER, session, seen or Seen())


def texts(page: Page | None) -> list[object]:
    assert page is not None
    return [item.text for item in page.items]


async def test_a_session_nobody_knows_is_empty(house: House) -> None:
    assert await look(house) == Page((), Seen())


async def test_reminders_that_are_due_and_results_are_one_list(house: House) -> None:
    tea = await house.remind("drink tea")
    await house.remind("later", MINUTE)
    house.clock.advance(1)
    item = await house.result("all is well", name="check")
    page = await look(house)
    assert tuple(map(msgspec.to_builtins, page.items)) == (
        {"id": tea, "kind": "reminder", "at": "2026-02-02T21:22:38.229Z", "text": "drink tea"},
        {
            "id": item.id,
            "kind": "run",
            "at": "2026-02-02T21:22:38.230Z",
            "text": "all is well",
            "name": "check",
            "job_id": "job-1",
            "run_id": "r1",
        },
    )
    assert page.next_ms == NOW + MINUTE


async def test_a_reminder_is_shown_with_its_tool_and_arguments(house: House) -> None:
    wanted = ReminderRequest(NOW, "write to Ann", "send_mail", '{"to":"ann"}')
    await house.reminders.schedule(OWNER, SESSION, (wanted,))
    (item,) = json.loads(msgspec.json.encode((await look(house)).items))
    assert (item["tool"], item["arguments"]) == ("send_mail", {"to": "ann"})


async def test_looking_changes_nothing(house: House) -> None:
    await house.remind("drink tea")
    await house.result("done")
    first = await look(house)
    assert await look(house) == first
    assert await house.reminders.reserve(OWNER, SESSION, "c1") is not None
    assert await house.deliveries.reserve(OWNER, SESSION, "c1") is not None
    # What a request carries now is not delivered yet.
    assert await look(house) == first


async def test_what_was_delivered_is_not_shown(house: House) -> None:
    await house.remind("drink tea")
    await house.result("done")
    reservation = await house.reminders.reserve(OWNER, SESSION, "c1")
    parcel = await house.deliveries.reserve(OWNER, SESSION, "c1")
    assert reservation is not None
    assert parcel is not None
    await house.reminders.commit(reservation)
    await house.deliveries.commit(parcel)
    assert (await look(house)).items == ()


async def test_the_cursor_leaves_out_what_was_seen_and_nothing_else(house: House) -> None:
    await house.remind("late", 2 * MINUTE)
    await house.remind("now")
    await house.result("one")
    page = await look(house)
    assert texts(page) == ["now", "one"]
    assert texts(await look(house, page.seen)) == []
    # One that is due for longer than those already seen, and one that was given back.
    house.clock.advance(1)
    await house.remind("from before", -MINUTE)
    await house.result("two")
    page = await look(house, page.seen)
    assert texts(page) == ["from before", "two"]
    house.clock.advance(2 * MINUTE)
    assert texts(await look(house, page.seen)) == ["late"]


async def test_the_cursor_stays_short(house: House) -> None:
    seen = Seen()
    for number in range(20):
        await house.remind(f"number {number}")
        page = await look(house, seen)
        seen = page.seen
        await house.inbox.acknowledge(OWNER, SESSION, tuple(i.id for i in page.items))
    assert len(str(seen)) < 20


async def test_a_clock_that_is_stepped_hides_nothing(house: House) -> None:
    await house.remind("drink tea")
    page = await look(house)
    house.clock.advance(-60 * MINUTE)
    await house.remind("an hour earlier")
    assert texts(await look(house, page.seen)) == ["an hour earlier"]


async def test_too_much_for_one_answer_comes_in_several(house: House) -> None:
    large = "x" * (MOST_SHOWN_CHARACTERS // 2)
    await house.remind("drink tea")
    for _ in range(5):
        await house.result(large)
    seen, counts = Seen(), []
    while (page := await look(house, seen)).items:
        counts.append(len(page.items))
        seen = page.seen
    assert counts == [3, 2, 1]


async def test_one_that_is_too_large_comes_alone(house: House) -> None:
    await house.result("x" * (MOST_SHOWN_CHARACTERS + 1))
    await house.result("small")
    page = await look(house)
    assert len(page.items) == 1
    assert texts(await look(house, page.seen)) == ["small"]


@given(
    seq=st.integers(0, 10**18 - 1),
    marks=st.frozensets(st.from_regex(r"[A-Za-z0-9_-]{8}", fullmatch=True), max_size=20),
)
def test_cursors_are_read_as_they_were_written(seq: int, marks: frozenset[str]) -> None:
    assert read_cursor(str(Seen(seq, marks))) == Seen(seq, marks)


@given(text=st.text(alphabet="0123456789.ABC_- ²\n", max_size=30))
def test_anything_else_is_no_cursor(text: str) -> None:
    seen = read_cursor(text)
    assert seen is None or read_cursor(str(seen)) == seen


STEPS = st.lists(
    st.sampled_from(["result", "due", "soon", "past", "forward", "back", "look", "ack", "carry"]),
    max_size=30,
)


@given(steps=STEPS)
def test_whoever_looks_again_and_again_sees_all(steps: list[str]) -> None:
    anyio.run(play, steps)


async def play(steps: list[str]) -> None:
    house, seen, shown = build(Ledger()), Seen(), set[object]()
    expected: set[str] = set()
    for number, step in enumerate(steps):
        text = str(number)
        if step == "result":
            await house.result(text)
        elif step in ("due", "soon", "past"):
            await house.remind(text, {"due": 0, "soon": 1000, "past": -1000}[step])
        elif step in ("forward", "back"):
            house.clock.advance(2000 if step == "forward" else -500)
        elif step == "ack":
            page = await look(house)
            ids = [item.id for item in page.items][:1]
            shown |= {item.text for item in page.items if item.id in ids}
            await house.inbox.acknowledge(OWNER, SESSION, tuple(ids))
        elif step == "carry":
            parcel = await house.deliveries.reserve(OWNER, SESSION, text)
            if parcel is not None:
                house.deliveries.release(parcel)
        if step == "look":
            page = await look(house, seen)
            seen = page.seen
            shown |= set(texts(page))
        if step in ("result", "due", "soon", "past"):
            expected.add(text)
    house.clock.advance(60_000)
    shown |= set(texts(await look(house, seen)))
    assert shown == expected


# Waiting.


class Waiting:
    """Somebody who waits for what they have not seen."""

    def __init__(self, house: House, seen: Seen | None = None, seconds: float = 10) -> None:
        self._house = house
        self._seen = seen or Seen()
        self._seconds = seconds
        self.wakeup = Wakeup()
        self.pages: list[Page | None] = []

    async def wait(self) -> None:
        self.pages.append(
            await self._house.inbox.wait(OWNER, SESSION, self._seen, self._seconds, self.wakeup)
        )


@pytest.mark.parametrize("what", ["result", "reminder", "reminder that comes due", "earlier one"])
async def test_whoever_waits_hears_at_once(house: House, what: str) -> None:
    waiting = Waiting(house)
    if what in ("reminder that comes due", "earlier one"):
        await house.remind("the news", MINUTE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.wait)
        await until(lambda: len(house.timers) > 0 or what in ("result", "reminder"))
        if what == "result":
            await house.result("the news")
        elif what == "reminder":
            await house.remind("the news")
        elif what == "earlier one":
            await house.remind("earlier", 1000)
            await until(lambda: len(house.timers) == 1)
            house.clock.advance(1000)
        else:
            house.clock.advance(MINUTE)
    assert texts(waiting.pages[0]) == ["earlier" if what == "earlier one" else "the news"]
    assert len(house.timers) == 0


async def test_what_was_seen_is_waited_past(house: House) -> None:
    await house.remind("drink tea")
    waiting = Waiting(house, (await look(house)).seen)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.wait)
        await anyio.lowlevel.checkpoint()
        await house.result("done")
    assert texts(waiting.pages[0]) == ["done"]


async def test_what_comes_while_it_looks_is_not_overlooked() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result("one")
        waiting = Waiting(house, (await look(house)).seen)
        gate = anyio.Event()
        rows.gates.append(gate)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiting.wait)
            await until(lambda: not rows.gates)
            await house.result("two")
            await anyio.lowlevel.checkpoint()
            gate.set()
    assert texts(waiting.pages[0]) == ["two"]


async def test_at_the_end_of_the_wait_there_is_nothing(house: House) -> None:
    waiting = Waiting(house, seconds=0.01)
    await waiting.wait()
    assert waiting.pages == [None]


async def test_whoever_leaves_or_is_sent_home_waits_no_longer(house: House) -> None:
    waiting = Waiting(house, seconds=3600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.wait)
        await anyio.lowlevel.checkpoint()
        waiting.wakeup.end()
    assert waiting.pages == [None]


async def test_the_window_counts() -> None:
    async with living(rules=Rules(due_window_ms=MINUTE)) as house:
        await house.remind("drink tea", 2 * MINUTE)
        assert (await look(house)).next_ms == NOW + MINUTE
        house.clock.advance(MINUTE)
        assert texts(await look(house)) == ["drink tea"]


# Receipts.


async def test_what_is_acknowledged_goes_with_no_request(house: House) -> None:
    tea = await house.remind("drink tea")
    item = await house.result("done")
    ids = (item.id, "unknown", tea, tea)
    assert await house.inbox.acknowledge(OWNER, SESSION, ids) == (item.id, tea)
    assert await house.inbox.acknowledge(OWNER, SESSION, ids) == ()
    assert await house.reminders.reserve(OWNER, SESSION, "c1") is None
    assert await house.deliveries.reserve(OWNER, SESSION, "c1") is None
    assert sorted(await house.published()) == sorted(
        [("delivery.acked", tea), ("delivery.acked", item.id)]
    )
    (ended,) = house.reminders.recent(OWNER, SESSION)
    assert (ended.id, ended.outcome) == (tea, "delivered")
    (task,) = (await house.reminders.list_reminders(OWNER, SESSION)).items
    assert (task.delivered_ms, task.deliveries) == (NOW, 1)


async def test_a_turn_that_carries_what_is_acknowledged_neither_gives_it_back_nor_counts_it(
    house: House,
) -> None:
    tea, cake = await house.remind("drink tea"), await house.remind("eat cake")
    reservation = await house.reminders.reserve(OWNER, SESSION, "c1")
    assert reservation is not None
    await house.inbox.acknowledge(OWNER, SESSION, (tea,))
    house.reminders.release(reservation)
    left = await house.reminders.reserve(OWNER, SESSION, "c2")
    assert left is not None
    assert [task.id for task in left.items] == [cake]
    await house.reminders.commit(left)
    counts = house.reminders.counts
    assert (counts.reserved, counts.released, counts.committed, counts.acknowledged) == (3, 1, 1, 1)


async def test_an_owner_acknowledges_only_their_own(house: House) -> None:
    tea = await house.remind("drink tea", owner="ann")
    item = await house.result("done", owner="ann")
    assert await house.inbox.acknowledge("bob", SESSION, (tea, item.id)) == ()
    assert await house.inbox.acknowledge("ann", "another", (tea, item.id)) == ()
    assert await house.shown(owner="ann") == ["drink tea", "done"]
