"""Limits of an owner who asks at several instances."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gateway.clock import ManualClock
from gateway.stores.documents import StoreUnavailable
from gateway.stores.hints import SessionHints
from gateway.stores.postgres.documents import PostgresDocuments
from gateway.stores.shared_rows import LimitCountRows
from gateway.usage.limits import OwnerLimits
from gateway.usage.limits_model import OwnerBounds
from gateway.usage.model import UsageQuery, UsageTable
from gateway.usage.shared_limits import SharedLimits
from tests.gateway.wire import Cue, streaming, turn, usage
from tests.jobs.models import cued
from tests.jobs.words import keys
from tests.run import Running, until
from tests.usage.words import ask, start
from tests.wire.fake import Story

from .gateways import instance
from .rows import NOON, OpenedRows, PostgresRowBackend
from .server import make_schema_name

COSTLY = streaming(turn("Hi", counted=usage(60, 40)))


@asynccontextmanager
async def pair(story: Story, **limits: Any) -> AsyncIterator[tuple[Running, Running]]:
    """Run two gateways for ann, who has these limits."""
    owners = keys("ann")
    owners[0] |= limits
    tables, schema = {"keys": owners}, make_schema_name()
    async with (
        instance(story, schema, tables=tables) as one,
        instance(story, schema, tables=tables) as two,
    ):
        # They know each other.
        await reconcile(one)
        await reconcile(two)
        yield one, two


async def reconcile(gate: Running) -> None:
    """Have a gateway tell what it counted and learn what others did, as it does often."""
    instances = gate.gateway.parts.instances
    assert instances is not None
    shared = instances.limits
    await gate.gateway.parts.usage.flush()
    await shared.reconcile()
    await shared.reconcile_budgets()


class TestGateways:
    async def test_requests_and_tokens_of_a_minute(self) -> None:
        async with pair(COSTLY, rpm=3, tpm=1000) as (one, two):
            for _ in range(2):
                assert (await ask(one)).status == 200
            await one.quiet()
            await reconcile(one)
            await reconcile(two)
            last = await ask(two)
            assert last.status == 200
            assert last.headers["x-ratelimit-remaining-requests"] == "0"
            assert last.headers["x-ratelimit-remaining-tokens"] == "800"
            refused = await ask(two)
            assert (refused.status, refused.json["error"]["code"]) == (429, "rate_limit_exceeded")
            # What was learned once is not learned again.
            await reconcile(two)
            assert (await ask(one)).status == 200

    async def test_answers_at_the_same_time(self) -> None:
        cue = Cue()
        async with pair(cued(cue, "Hi"), concurrent=1) as (one, two):
            running = await start(one)
            await until(lambda: len(one.requests) == 1)
            await reconcile(one)
            await reconcile(two)
            assert (await ask(two)).status == 429
            cue.give()
            assert (await running.answer()).status == 200
            # The other one hears of it, without being asked to look.
            elsewhere = two.gateway.parts.limits.limiters["ann"]
            await until(lambda: elsewhere.elsewhere == 0)
            cue.give()
            assert (await ask(two)).status == 200

    async def test_budgets(self) -> None:
        async with pair(COSTLY, budget="250 tokens/day") as (one, two):
            for _ in range(2):
                assert (await ask(one)).status == 200
            await one.quiet()
            await reconcile(one)
            await reconcile(two)
            assert (await ask(two)).status == 200
            await two.quiet()
            refused = await ask(two)
            assert (refused.status, refused.json["error"]["code"]) == (429, "budget_exceeded")
            # Until it learns of the last one, it counts its own.
            assert (await ask(one)).status == 200
            await one.quiet()
            await reconcile(two)
            await reconcile(one)
            assert (await ask(one)).status == 429


class BrokenCounts:
    """Counts of a store that can be away."""

    def __init__(self, counts: LimitCountRows) -> None:
        self._counts = counts
        self.is_away = False

    async def exchange(self, holder: str, counts: Any) -> Any:
        """Answer, or not."""
        if self.is_away:
            raise StoreUnavailable("It is away.")
        return await self._counts.exchange(holder, counts)


class Side:
    """The limits of one instance, that ann shares."""

    def __init__(self, rows: OpenedRows) -> None:
        clock = ManualClock(NOON)
        self.rows = rows
        self.notes: list[str] = []
        self.counts = BrokenCounts(rows.operators.limit_counts)
        bounds = {"ann": OwnerBounds(rpm=100, tpm=1000, concurrent=10)}
        limits = OwnerLimits(bounds, clock, self._note)
        self.limiter = limits.limiters["ann"]
        store = PostgresDocuments(rows.database, rows.instance, SessionHints(), self._report)
        self.shared = SharedLimits(limits, read_nothing, self.counts, store, clock, self._note)

    def spend(self, requests: int, tokens: int) -> None:
        """Count these, as exchanges do."""
        for _ in range(requests):
            self.limiter.count_request()
        self.limiter.settle(tokens, 0)

    @property
    def left(self) -> tuple[str, str]:
        """What is left of a minute's requests and tokens."""
        headers = dict(self.limiter.headers("openai-chat"))
        names = (b"x-ratelimit-remaining-requests", b"x-ratelimit-remaining-tokens")
        requests, tokens = (headers[name].decode() for name in names)
        return requests, tokens

    def _note(self, event: str, **fields: object) -> None:
        self.notes.append(event)

    def _report(self, name: str, reason: str) -> None:
        raise AssertionError(name)


async def read_nothing(query: UsageQuery) -> UsageTable:
    return {}


@asynccontextmanager
async def sides() -> AsyncIterator[tuple[Side, Side]]:
    backend = PostgresRowBackend()
    async with backend.opened() as one, backend.opened() as two:
        found = Side(one), Side(two)
        for side in found:
            await side.shared.reconcile()
        yield found


class TestCounts:
    async def test_what_was_counted_before_the_first_look_is_not_counted_again(self) -> None:
        backend = PostgresRowBackend()
        async with backend.opened() as first, backend.opened() as second:
            one, two = Side(first), Side(second)
            one.spend(5, 100)
            await one.shared.reconcile()
            await two.shared.reconcile()
            assert two.left == ("100", "1000")
            one.spend(1, 10)
            await one.shared.reconcile()
            await two.shared.reconcile()
            assert two.left == ("99", "990")

    async def test_one_that_was_buried_tells_only_what_is_new(self) -> None:
        async with sides() as (one, two):
            one.spend(5, 100)
            await one.shared.reconcile()
            await two.shared.reconcile()
            await one.rows.bury()
            one.spend(1, 10)
            await one.rows.database.use(one.rows.instance.beat)
            await one.shared.reconcile()
            await two.shared.reconcile()
            assert two.left == ("94", "890")

    async def test_without_the_store_each_goes_by_its_own_counts(self) -> None:
        async with sides() as (one, two):
            one.limiter.enter()
            await one.shared.reconcile()
            await two.shared.reconcile()
            assert two.limiter.elsewhere == 1
            two.counts.is_away = True
            for _ in range(2):
                await two.shared.reconcile()
            assert (two.limiter.elsewhere, two.notes) == (0, ["limits_not_shared"])
            two.counts.is_away = False
            await two.shared.reconcile()
            assert two.limiter.elsewhere == 1

    async def test_counts_that_the_server_lost_are_told_again_and_not_counted_twice(self) -> None:
        async with sides() as (one, two):
            await two.rows.database.use(two.rows.instance.beat)
            one.spend(5, 100)
            await one.shared.reconcile()
            await two.shared.reconcile()
            one.counts.is_away = True
            await one.shared.reconcile()
            await one.rows.database.run("TRUNCATE @limit_counts")
            await two.shared.reconcile()
            one.counts.is_away = False
            one.spend(1, 10)
            await one.shared.reconcile()
            await two.shared.reconcile()
            assert two.left == ("94", "890")

    async def test_nobody_waits_for_the_other(self) -> None:
        async with sides() as both:
            for _ in range(5):
                async with anyio.create_task_group() as tasks:
                    for side in both:
                        side.spend(1, 1)
                        tasks.start_soon(side.shared.reconcile)
            for side in both:
                await side.shared.reconcile()
            assert [side.left for side in both] == [("90", "990")] * 2
