"""The thread behind the stores: batches, order, and outcomes that always arrive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import anyio
import pytest

from gateway.stores import StoreUnavailable, group_commit
from gateway.stores.group_commit import LARGEST_BATCH, BatchWorker


class Bench:
    """Squares numbers once the gate is open; refuses -13, and breaks down at 666."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self.batches: list[list[int]] = []
        self.settled: list[object] = []
        self.worker: BatchWorker[int, int] = BatchWorker("test-worker", self.perform)

    def perform(self, batch: list[int]) -> list[int | Exception]:
        self.batches.append(batch)
        self._loop.call_soon_threadsafe(self.began.set)
        self.gate.wait(10)
        if 666 in batch:
            raise LookupError("a bug")
        return [ValueError("unlucky") if job == -13 else job * job for job in batch]

    def submit(self, job: int) -> asyncio.Future[int]:
        return self.worker.submit(job, self.settled.append)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    with anyio.fail_after(10):
        yield bench
    bench.gate.set()
    await bench.worker.aclose()


async def test_what_waits_is_done_at_once_and_in_order(bench: Bench) -> None:
    first = bench.submit(1)
    await bench.began.wait()
    rest = [bench.submit(number) for number in range(2, 300)]
    bench.gate.set()
    assert await asyncio.gather(first, *rest) == [number**2 for number in range(1, 300)]
    assert [len(batch) for batch in bench.batches] == [1, LARGEST_BATCH, LARGEST_BATCH, 42]
    assert bench.settled == [number**2 for number in range(1, 300)]


async def test_one_that_fails_fails_alone(bench: Bench) -> None:
    bench.gate.set()
    done = await asyncio.gather(*map(bench.submit, (2, -13, 3)), return_exceptions=True)
    assert [str(outcome) for outcome in done] == ["4", "unlucky", "9"]


async def test_a_breakdown_is_heard_by_all_and_the_thread_goes_on(bench: Bench) -> None:
    bench.gate.set()
    with pytest.raises(LookupError):
        await bench.submit(666)
    assert await bench.submit(3) == 9


async def test_what_follows_happens_without_whoever_asked(bench: Bench) -> None:
    future = bench.submit(4)
    await bench.began.wait()
    future.cancel()
    bench.gate.set()
    assert await bench.submit(5) == 25
    assert bench.settled == [16, 25]


async def test_one_that_cannot_settle_hurts_only_itself(bench: Bench) -> None:
    def fail(_: object) -> None:
        raise LookupError("a bug")

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context["exception"])
    )
    bench.gate.set()
    futures = [bench.worker.submit(2, fail), bench.submit(3)]
    assert await asyncio.gather(*futures) == [4, 9]
    assert [type(failure) for failure in failures] == [LookupError]


async def test_too_many_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_QUEUE", 3)
    futures = [bench.submit(number) for number in range(3)]
    with pytest.raises(StoreUnavailable, match="wait to be written"):
        bench.submit(3)
    bench.gate.set()
    assert await asyncio.gather(*futures) == [0, 1, 4]
    assert await bench.submit(3) == 9


async def test_closing_does_what_was_submitted_and_nothing_after(bench: Bench) -> None:
    futures = [bench.submit(number) for number in range(3)]
    bench.gate.set()
    await bench.worker.aclose()
    assert await asyncio.gather(*futures) == [0, 1, 4]
    with pytest.raises(StoreUnavailable, match="closed"):
        bench.submit(1)


def test_a_loop_that_is_gone_does_not_trouble_the_thread() -> None:
    benches: list[Bench] = []

    async def leave() -> None:
        benches.append(Bench())
        benches[0].submit(1)

    asyncio.run(leave())
    benches[0].gate.set()
    asyncio.run(benches[0].worker.aclose())
    assert benches[0].batches == [[1]]
