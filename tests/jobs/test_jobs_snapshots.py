"""What is remembered of relay sessions, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from gateway.clock import ManualClock
from gateway.exchange.model import ExchangeInfo, ModelRequest, Route, Stop, TurnEnd, Usage
from gateway.exchange.observer import NOBODY, TurnEnded
from gateway.jobs.relay_sessions import LARGEST, JobIndex, Snapshots
from gateway.stores import Memory, open_rows
from gateway.stores.conversation_rows import Snapshot
from gateway.stores.urls import system_ms, tell_nobody
from tests.jobs.faults import Flaky
from tests.jobs.words import NOW, job, seen
from tests.run import until

END = TurnEnd(Stop.STOP, usage=Usage())
ROUTE, INFO = Route("up", "m"), ExchangeInfo("req_1", "req_1")


class Notes(list[str]):
    """What was noted in the log."""

    def __call__(self, event: str, **fields: Any) -> None:
        self.append(event)


@asynccontextmanager
async def remembering(*sessions: str, room: int = 1000) -> AsyncIterator[Snapshots]:
    """Remember requests; these sessions have jobs."""
    clock = ManualClock(NOW)
    store = Memory(system_ms, tell_nobody)
    rows = await open_rows("memory:", Path(), store, now_ms=clock.now_ms)
    try:
        job_index = JobIndex()
        job_index.load([job(name, session_id=name) for name in sessions])
        yield Snapshots(rows.conversations, clock, job_index, lambda *_: True, Notes(), room)
    finally:
        await rows.aclose()


def hear(snapshots: Snapshots, session: str, body: bytes, *texts: str) -> None:
    """Have a request answered in some turns."""
    asked = ModelRequest("m", body)
    observer = snapshots.observer("o", session, "openai-chat", asked, ((b"openai-beta", b"x"),))
    assert observer is not NOBODY
    for text in texts:
        observer.observe(0.0, TurnEnded(END, partial(str, text), 1, 1, 1, ROUTE, 0.0, INFO))


async def test_a_request_and_all_that_answered_it() -> None:
    async with remembering() as snapshots:
        hear(snapshots, "s", b"{}", "Let me see.", " ", "Done.")
        found = await snapshots.find("o", "s")
        headers = (("openai-beta", "x"),)
        assert found == Snapshot("openai-chat", "m", b"{}", "Let me see.\n\nDone.", NOW, headers)
        assert await snapshots.find("p", "s") is None
        assert await snapshots.rows.snapshot("o", "s") is None


async def test_a_request_that_nothing_answered_is_not_gone_on_from() -> None:
    async with remembering() as snapshots:
        hear(snapshots, "s", b"first", "Done.")
        hear(snapshots, "s", b"second")
        found = await snapshots.find("o", "s")
        assert found is not None
        assert found.body == b"first"


async def test_the_eldest_are_forgotten() -> None:
    async with remembering(room=30) as snapshots:
        for session in ("a", "b", "a", "c"):
            hear(snapshots, session, b"x" * 9, "y")
        assert len(snapshots) == 3
        hear(snapshots, "d", b"x" * 9, "y")
        known = [name for name in "abcd" if await snapshots.find("o", name) is not None]
        assert known == ["a", "c", "d"]


async def test_what_is_too_large_is_not_remembered() -> None:
    async with remembering(room=10 * LARGEST) as snapshots:
        huge = ModelRequest("m", b"x" * (LARGEST + 1))
        assert snapshots.observer("o", "s", "openai-chat", huge, ()) is NOBODY
        hear(snapshots, "s", b"x", "y" * LARGEST)
        assert await snapshots.find("o", "s") is None


async def test_what_is_too_large_to_remember_is_still_kept_for_a_session_with_jobs() -> None:
    async with remembering("s", room=5) as snapshots, anyio.create_task_group() as tasks:
        tasks.start_soon(snapshots.run)
        hear(snapshots, "s", b"x" * 9, "y")
        assert len(snapshots) == 0
        await seen(
            lambda: snapshots.rows.snapshot("o", "s"),
            lambda found: found is not None and found.body == b"x" * 9,
        )
        tasks.cancel_scope.cancel()


async def test_a_session_with_jobs_is_kept() -> None:
    async with remembering("s") as snapshots, anyio.create_task_group() as tasks:
        tasks.start_soon(snapshots.run)
        for text in ("one", "two"):
            hear(snapshots, "s", b"{}", text)
            hear(snapshots, "t", b"{}", text)
        await seen(
            lambda: snapshots.rows.snapshot("o", "s"),
            lambda found: found is not None and found.answer == "two",
        )
        assert await snapshots.rows.snapshot("o", "t") is None
        tasks.cancel_scope.cancel()


async def test_a_session_that_gets_a_job_is_kept_at_once() -> None:
    async with remembering() as snapshots:
        await snapshots.keep("o", "s")
        assert await snapshots.rows.snapshot("o", "s") is None
        hear(snapshots, "s", b"{}", "Done.")
        await snapshots.keep("o", "s")
        assert await snapshots.rows.snapshot("o", "s") is not None


async def test_the_last_ones_are_kept_at_the_end() -> None:
    async with remembering("s") as snapshots:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(snapshots.run)
            await checkpoint()
            hear(snapshots, "s", b"{}", "Done.")
            tasks.cancel_scope.cancel()
        assert await snapshots.rows.snapshot("o", "s") is not None


async def test_a_store_that_is_down_is_tried_again() -> None:
    async with remembering("s") as snapshots, anyio.create_task_group() as tasks:
        flaky = Flaky(snapshots.rows, "keep_snapshot")
        snapshots.rows = flaky
        snapshots.again_after = 0.01
        tasks.start_soon(snapshots.run)
        hear(snapshots, "s", b"{}", "Done.")
        await until(lambda: flaky.failures > 1)
        flaky.mend()
        await seen(lambda: snapshots.rows.snapshot("o", "s"), lambda found: found is not None)
        tasks.cancel_scope.cancel()


async def test_a_job_can_be_made_while_the_store_is_down() -> None:
    async with remembering() as snapshots, anyio.create_task_group() as tasks:
        flaky = Flaky(snapshots.rows, "keep_snapshot")
        snapshots.rows = flaky
        hear(snapshots, "s", b"{}", "Done.")
        await snapshots.keep("o", "s")
        assert flaky.failures == 1
        flaky.mend()
        tasks.start_soon(snapshots.run)
        await seen(lambda: snapshots.rows.snapshot("o", "s"), lambda found: found is not None)
        tasks.cancel_scope.cancel()


async def test_a_forgotten_session_is_not_kept() -> None:
    async with remembering("s", "later") as snapshots:
        hear(snapshots, "s", b"{}", "Done.")
        snapshots.forget("o", "s")
        assert await snapshots.find("o", "s") is None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(snapshots.run)
            # What is heard after it is kept after it.
            hear(snapshots, "later", b"{}", "Done.")
            await seen(
                lambda: snapshots.rows.snapshot("o", "later"), lambda found: found is not None
            )
            tasks.cancel_scope.cancel()
        assert await snapshots.rows.snapshot("o", "s") is None
