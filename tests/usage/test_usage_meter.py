"""The meter: what is counted, when it is stored, and what becomes of it when the store fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.clock import ManualClock
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Stop, TurnEnd, Usage
from gateway.exchange.observer import ExchangeEnded, TurnBroke, TurnEnded
from gateway.stores.documents import StoreUnavailable
from gateway.stores.rows import UsageRows
from gateway.stores.sqlite.rows import RowServices, open_memory_rows
from gateway.timestamps import HOUR_MS
from gateway.usage import meter as module
from gateway.usage.meter import UsageMeter
from gateway.usage.model import (
    GROUPS,
    KEPT_MS,
    OTHER,
    PriceList,
    Spending,
    UsageBatch,
    UsageCounts,
    UsageQuery,
    UsageTable,
    make_price,
)
from tests.jobs.words import seen
from tests.run import until

NOW = 500_000 * HOUR_MS + 5
HOUR = NOW - 5
ALL = UsageQuery(0, 2**63 - 1, None, GROUPS, 10_000)
ANN = ExchangeInfo("x", "x", "ann", None, "m", "openai-chat")
ROUTE = Route("a", "real")
PRICED = (Route("a", "priced"), Route("b", "priced"))


class FaultyRows:
    """A store that fails before it stores something, after that, or does not answer at all."""

    def __init__(self, rows: UsageRows) -> None:
        self._rows = rows
        self.fails_before = self.fails_after = self.hangs = False
        self.pruned: list[int] = []

    async def add(self, batch: UsageBatch) -> bool:
        if self.fails_before:
            raise StoreUnavailable("Gone.")
        done = await self._rows.add(batch)
        if self.fails_after:
            raise StoreUnavailable("The answer was lost.")
        if self.hangs:
            await anyio.sleep_forever()
        return done

    async def last_batch(self, writer: str) -> int:
        return await self._rows.last_batch(writer)

    async def sum_up(self, query: UsageQuery) -> UsageTable:
        return await self._rows.sum_up(query)

    async def prune(self, before_ms: int) -> int:
        self.pruned.append(before_ms)
        return await self._rows.prune(before_ms)


class Metered:
    """A meter, its store and clock, and what it logged."""

    def __init__(self, rows: UsageRows) -> None:
        self.rows = FaultyRows(rows)
        self.clock = ManualClock(NOW)
        self.notes: list[tuple[str, str]] = []
        self.meter = self.restart("w")

    def restart(self, writer: str) -> UsageMeter:
        """Make the meter of another process on the same store."""
        cheap = make_price({"input": Decimal("0.15"), "output": Decimal("0.6")})
        prices = PriceList([("priced", PRICED, cheap)])
        self.totals = ExchangeTotals(self.clock)
        self.meter = UsageMeter(self.rows, self.totals, self.clock, prices, self._note, writer)
        return self.meter

    def _note(self, event: str, why: str) -> None:
        self.notes.append((event, why))

    def turn(
        self, tokens: Usage | None = None, upstream: str = "a", info: ExchangeInfo = ANN, **who: Any
    ) -> None:
        end = TurnEnd(Stop.STOP, usage=tokens)
        info = replace(info, **who)
        route = Route(upstream, info.model)
        self.totals.observe(0, TurnEnded(end, str, 1, 1, 1, route, 0.1, info))

    def exchange(self, upstream: str = "a", **who: Any) -> None:
        ended = ExchangeEnded(
            info=replace(ANN, **who),
            state=State.DONE,
            route=Route(upstream, who.get("model", "m")),
            turns=1,
            tries=1,
            status=200,
            seconds=1,
            first_seconds=None,
            bytes=1,
            usage=None,
        )
        self.totals.observe(0, ended)

    async def stored(self) -> UsageTable:
        return await self.rows.sum_up(ALL)

    async def read(self) -> UsageTable:
        return await self.meter.read(ALL)


@pytest.fixture
async def metered() -> AsyncIterator[Metered]:
    services = RowServices(lambda: NOW, lambda: NOW, lambda name, reason: None)
    rows = open_memory_rows(services)
    yield Metered(rows.usage)
    await rows.aclose()


def row(
    owner: str = "ann", model: str = "m", upstream: str = "a", hour: int = HOUR
) -> tuple[str, int, str, str]:
    return owner, hour, model, upstream


async def test_turns_and_exchanges_are_counted_where_they_ended(metered: Metered) -> None:
    metered.turn(Usage(10, 5, 4, 3))
    metered.turn(None)
    metered.turn(Usage(1, 1), upstream="b")
    metered.exchange(upstream="b")
    assert await metered.read() == {
        row(): UsageCounts(0, 2, 1, 10, 4, 5, 3),
        row(upstream="b"): UsageCounts(1, 1, 1, 1, 0, 1, 0),
    }
    assert await metered.stored() == {}
    await metered.meter.flush()
    assert await metered.stored() == await metered.read()


async def test_a_turn_that_broke_off_has_the_tokens_that_were_reported(metered: Metered) -> None:
    metered.totals.observe(0, TurnBroke(1, ROUTE, ANN))
    assert await metered.read() == {row(): UsageCounts(turns=1)}
    metered.totals.observe(0, TurnBroke(1, ROUTE, ANN, Usage(10, 1)))
    assert await metered.read() == {row(): UsageCounts(0, 2, 1, 10, 0, 1)}


async def test_owners_models_and_hours_are_apart(metered: Metered) -> None:
    metered.turn(Usage(1, 1))
    metered.turn(Usage(1, 1), owner="bob")
    metered.turn(Usage(1, 1), model="n")
    metered.clock.advance(HOUR_MS)
    metered.turn(Usage(1, 1))
    assert set(await metered.read()) == {
        row(),
        row("bob"),
        row(model="n"),
        row(hour=HOUR + HOUR_MS),
    }


async def test_costs_do_not_drift(metered: Metered) -> None:
    """Each turn costs a tenth of what can be stored, and none of them is lost."""
    for _ in range(1000):
        metered.turn(Usage(1, 0, 0), model="priced")
    metered.turn(Usage(0, 1, 0), model="priced", owner="bob")
    metered.turn(Usage(10**6, 0), model="m")
    found = await metered.read()
    assert found[row(model="priced")].cost_micros == 150
    assert found[row("bob", "priced")].cost_micros == 0
    assert found[row()].cost_micros is None


async def test_what_was_used_costs_what_it_cost_then(metered: Metered) -> None:
    metered.turn(Usage(10**6, 0), model="priced")
    metered.turn(Usage(10**6, 0), model="m")
    dear = make_price({"input": Decimal(2), "cached": Decimal(1), "output": Decimal(3)})
    metered.meter.set_prices(PriceList([("priced", PRICED, dear)]))
    metered.turn(Usage(10, 0, cached=30), model="priced")
    metered.turn(Usage(40, 5, cached=30), model="priced")
    cost = 150_000 + 30 + (10 * 2 + 30 + 5 * 3)
    assert (await metered.read())[row(model="priced")].cost_micros == cost


@given(
    st.lists(st.tuples(*[st.integers(0, 1000)] * 3, st.sampled_from(["ann", "bob"])), max_size=30),
    st.sets(st.integers(0, 30)),
)
async def test_sums_do_not_depend_on_when_they_are_taken_over(
    turns: list[tuple[int, int, int, str]], taken_over: set[int]
) -> None:
    services = RowServices(lambda: NOW, lambda: NOW, lambda name, reason: None)
    rows = open_memory_rows(services)
    metered, price = (
        Metered(rows.usage),
        make_price({"input": Decimal("0.15"), "output": Decimal("0.6")}),
    )
    expected: dict[str, int] = {}
    for number, (told, said, cached, owner) in enumerate(turns):
        usage = Usage(told, said, cached)
        metered.turn(usage, model="priced", owner=owner)
        expected[owner] = expected.get(owner, 0) + price.cost_picos(usage)
        if number in taken_over:
            await metered.meter.flush()
    found = {of: counts.cost_micros for (of, *_), counts in (await metered.read()).items()}
    assert found == {owner: picos // 10**6 for owner, picos in expected.items()}
    await rows.aclose()


async def test_whoever_wants_to_hears_of_each_turn(metered: Metered) -> None:
    heard: list[tuple[str, Usage | None, int]] = []
    metered.meter.on_turn = lambda owner, usage, cost: heard.append((owner, usage, cost))
    metered.turn(Usage(10**6, 10**6), model="priced")
    metered.turn(Usage(-1, 7), owner="bob")
    metered.turn(None)
    metered.exchange()
    assert heard == [
        ("ann", Usage(10**6, 10**6), 750_000),
        ("bob", Usage(0, 7), 0),
        ("ann", None, 0),
    ]


async def test_whatever_an_upstream_reports_can_be_stored(metered: Metered) -> None:
    metered.turn(Usage(10**40, -(10**40), 0, 2**63), model="priced")
    await metered.meter.flush()
    assert metered.notes == []
    assert (await metered.stored())[row(model="priced")].input == 10**9


async def test_names_that_clients_make_up_are_bounded(metered: Metered) -> None:
    for number in range(1000):
        metered.turn(Usage(1, 1), model=f"made-up-{number}")
        metered.exchange(model=f"made-up-{number}")
        if number % 300 == 0:
            await metered.meter.flush()
    metered.turn(Usage(1, 1), owner="bob", model="made-up-999")
    metered.turn(Usage(1, 1), model="made-up-0")
    await metered.meter.flush()
    found = await metered.stored()
    assert len(found) == module.MOST_PAIRS + 2
    others = 1000 - module.MOST_PAIRS
    assert found[row(model=OTHER)] == UsageCounts(others, others, others, others, 0, others, 0)
    assert found[row(model="made-up-0")].turns == 2
    assert found[row("bob", "made-up-999")].turns == 1
    metered.clock.advance(HOUR_MS)
    metered.turn(Usage(1, 1), model="made-up-999")
    assert row(model="made-up-999", hour=HOUR + HOUR_MS) in await metered.read()


@pytest.mark.parametrize("model", ["x" * 1_000_000, "a\0b", "\ud800"])
async def test_names_that_cannot_be_stored(metered: Metered, model: str) -> None:
    metered.turn(Usage(1, 1), model=model)
    await metered.meter.flush()
    assert set(await metered.stored()) == {row(model=OTHER)}


FAULTS: dict[str, Callable[[FaultyRows, bool], None]] = {
    "not stored": lambda rows, on: setattr(rows, "fails_before", on),
    "stored, but the answer was lost": lambda rows, on: setattr(rows, "fails_after", on),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_store_that_fails_loses_nothing_and_doubles_nothing(
    metered: Metered, fault: str
) -> None:
    turns = 0

    async def count(times: int) -> None:
        nonlocal turns
        for _ in range(times):
            metered.turn(Usage(1, 1))
            turns += 1
            await metered.meter.flush()
            # Whoever asks gets the truth, also while it is not known what is stored.
            assert (await metered.read())[row()].turns == turns
            assert (await metered.meter.sum_since("ann", HOUR)).tokens == 2 * turns

    await count(2)
    FAULTS[fault](metered.rows, True)
    await count(3)
    FAULTS[fault](metered.rows, False)
    await count(2)
    assert (await metered.stored())[row()].turns == turns
    # One line for each trouble.
    assert [event for event, _ in metered.notes] == ["usage_not_stored"]
    metered.rows.fails_before = True
    metered.turn(None)
    await metered.meter.flush()
    assert [event for event, _ in metered.notes] == ["usage_not_stored"] * 2


async def test_a_flush_that_is_cancelled_is_repeated(metered: Metered) -> None:
    metered.turn(Usage(1, 1))
    metered.rows.hangs = True
    with anyio.move_on_after(0.05):
        await metered.meter.flush()
    metered.turn(Usage(1, 1))
    metered.rows.hangs = False
    await metered.meter.aclose()
    assert (await metered.stored())[row()].turns == 2
    assert metered.notes == []


async def test_a_store_that_does_not_answer_does_not_keep_the_gateway(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSING_SECONDS", 0.01)
    metered.turn(Usage(1, 1))
    metered.rows.hangs = True
    with anyio.fail_after(5):
        await metered.meter.aclose()
    assert metered.notes == [("usage_not_stored", "The store does not answer.")]


async def test_whoever_reads_during_a_flush_gets_each_turn_once(metered: Metered) -> None:
    """Turns come, counts are stored and read, all at once."""
    found_turns: list[int] = []
    turns = 0

    async def read() -> None:
        before = turns
        found = (await metered.meter.sum_since("ann", HOUR)).tokens // 2
        assert before <= found <= turns
        found_turns.append(found)

    async with anyio.create_task_group() as tasks:
        for number in range(200):
            metered.turn(Usage(1, 1))
            turns += 1
            tasks.start_soon(read)
            if number % 3 == 0:
                tasks.start_soon(metered.meter.flush)
            await anyio.lowlevel.checkpoint()
    assert len(found_turns) == 200
    await metered.meter.flush()
    assert (await metered.stored())[row()].turns == 200


async def test_sums_are_of_one_owner_and_since_a_time(metered: Metered) -> None:
    metered.turn(Usage(1, 0))
    metered.clock.advance(HOUR_MS)
    metered.turn(Usage(2, 0))
    metered.turn(Usage(4, 0), owner="bob")
    # What was not stored is gone with its process.
    metered.restart("other")
    metered.turn(Usage(1000, 500), model="priced")
    assert await metered.meter.sum_since("ann", 0) == Spending(1500, 450)
    await metered.meter.flush()
    metered.turn(Usage(16, 4))
    assert await metered.meter.sum_since("ann", HOUR + HOUR_MS) == Spending(1520, 450)
    assert await metered.meter.sum_since("ann", HOUR + 2 * HOUR_MS) == Spending()


async def test_a_process_that_follows_another_adds_to_its_counts(metered: Metered) -> None:
    for writer in ("first", "second"):
        metered.restart(writer)
        metered.turn(Usage(1, 1))
        await metered.meter.flush()
    assert (await metered.stored())[row()].turns == 2


async def test_what_is_counted_is_stored_soon_and_what_is_old_deleted(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.01)
    old = UsageBatch("old", 1, {row(hour=HOUR - KEPT_MS - HOUR_MS): UsageCounts(turns=1)})
    await metered.rows.add(old)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(metered.meter.run)
        metered.turn(Usage(1, 1))
        await until(lambda: bool(metered.rows.pruned))
        await seen(metered.stored, lambda found: set(found) == {row()})
        tasks.cancel_scope.cancel()
    assert metered.rows.pruned == [NOW - KEPT_MS]


async def test_nothing_is_written_where_nothing_was_used(metered: Metered) -> None:
    await metered.meter.flush()
    assert await metered.rows.last_batch("w") == 0
