"""Large work beside the loop: done, refused, cut short, and shared among owners."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from gateway.dialects import DIALECTS
from gateway.errors import BadRequest, BodyTooLarge, Unavailable
from gateway.offload import Offload, OffloadSettings
from gateway.offload.frames import write_frame
from gateway.offload.process import HelperProcess
from gateway.offload.turns import FairQueue
from gateway.offload.worker import WorkFailed

pytestmark = pytest.mark.anyio
CHAT = DIALECTS["openai-chat"]
LONG = 100.0


@asynccontextmanager
async def offloading(**settings: object) -> AsyncIterator[Offload]:
    offload = Offload(OffloadSettings(**settings))  # type: ignore[arg-type]
    try:
        yield offload
    finally:
        await offload.aclose()


async def test_small_work_is_done_at_once_and_large_work_in_another_process() -> None:
    async with offloading(above=10) as offload:
        assert await offload.run("me", 10, os.getpid) == os.getpid()
        helper = await offload.run("me", 11, os.getpid)
        assert helper != os.getpid()
        assert await offload.run("me", 11, os.getpid) == helper


async def test_without_helpers_all_is_done_at_once() -> None:
    async with offloading(processes=0) as offload:
        assert await offload.run("me", 2**40, os.getpid) == os.getpid()
        assert await offload.send("me", 2**40, os.getpid) == os.getpid()


async def test_a_helper_knows_no_key_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    async with offloading() as offload:
        assert await offload.send("me", 1, partial(os.getenv, "SOME_API_KEY")) is None


async def test_what_a_client_did_wrong_is_said_as_ever() -> None:
    async with offloading() as offload:
        with pytest.raises(BadRequest, match="`n` must be at least 1") as caught:
            await offload.send("me", 1, partial(CHAT.read, b'{"model":"m","messages":[],"n":0}', 9))
        assert caught.value.param == "n"


async def test_a_fault_of_ours_is_told_without_what_it_worked_on() -> None:
    async with offloading() as offload:
        with pytest.raises(WorkFailed) as caught:
            await offload.send("me", 1, partial(int, "a user's text"))
        assert "ValueError" in str(caught.value)
        assert "a user's text" not in str(caught.value)


async def test_work_that_takes_too_much_memory_is_refused() -> None:
    async with offloading() as offload:
        with pytest.raises(BodyTooLarge, match="too much memory"):
            await offload.send("me", 1, partial(bytes, 2**33))
        with pytest.raises(BodyTooLarge, match="too much memory"):
            # The result fits, but not once more as the answer.
            await offload.send("me", 1, partial(bytes, 2**30))
        assert await offload.send("me", 1, partial(len, b"abc")) == 3


async def test_a_helper_that_grew_large_is_replaced() -> None:
    async with offloading() as offload:
        before = await offload.send("me", 1, os.getpid)
        assert len(await offload.send("me", 1, partial(b"x".__mul__, 400 * 2**20))) == 400 * 2**20
        assert await offload.send("me", 1, os.getpid) == before
        await offload.send("me", 1, partial(exec, "import sys; sys.kept = b'x' * (400 << 20)"))
        assert await offload.send("me", 1, os.getpid) != before


async def test_work_that_takes_too_long_is_given_up() -> None:
    async with offloading(seconds=0.5) as offload:
        with pytest.raises(Unavailable, match="offload_ms"):
            await offload.send("me", 1, partial(time.sleep, LONG))
        assert offload._queue.waiting == 0


async def test_a_helper_that_dies_hurts_one_request() -> None:
    async with offloading() as offload:
        with pytest.raises(Unavailable, match="stopped"):
            await offload.send("me", 1, partial(os._exit, 1))
        assert await offload.send("me", 1, partial(len, b"abc")) == 3


async def test_a_helper_that_died_at_rest_hurts_nobody() -> None:
    async with offloading() as offload:
        before = await offload.send("me", 1, os.getpid)
        os.kill(before, signal.SIGKILL)
        await run_sync(os.waitid, os.P_PID, before, os.WEXITED | os.WNOWAIT)
        assert await offload.send("me", 1, os.getpid) != before
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)


async def test_a_signal_to_all_processes_of_a_service_ends_no_work() -> None:
    async with offloading() as offload:
        helper = await offload.send("me", 1, os.getpid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(helper, number)
        assert await offload.send("me", 1, os.getpid) == helper


def test_a_helper_that_was_killed_as_it_answered_is_not_used_again() -> None:
    helper = HelperProcess()
    answer = io.BytesIO()
    write_frame(answer, pickle.dumps((True, 3)))

    class Answers(io.BytesIO):
        def readinto(self, place: Any) -> int:
            helper.kill()
            return super().readinto(place)

    pipes = helper._requests, helper._answers
    helper._requests, helper._answers = io.BytesIO(), Answers(answer.getvalue())
    assert helper.call(os.getpid) == (True, 3)
    assert helper.over
    helper._requests, helper._answers = pipes
    helper.close()


@pytest.mark.parametrize("work", ["os.getpid", "partial(time.sleep, 0.5)"])
def test_a_helper_ends_with_the_gateway_whatever_kills_that(work: str) -> None:
    begin = "import os, time; from functools import partial; "
    helper = "from gateway.offload.process import HelperProcess; h = HelperProcess(); "
    call = f"h.call(os.getpid); os.write(1, b'.'); h.call({work}); time.sleep({LONG})"
    with subprocess.Popen(
        [sys.executable, "-c", begin + helper + call],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as gateway:
        assert gateway.stdout is not None
        assert gateway.stderr is not None
        assert gateway.stdout.read(1) == b"."
        gateway.kill()
        # The helper has it open as well.
        assert gateway.stderr.read() == b""


async def test_who_leaves_ends_the_helper_that_works_for_nobody() -> None:
    async with offloading(processes=1) as offload:
        before = await offload.send("me", 1, os.getpid)
        with anyio.move_on_after(0.1):
            await offload.send("me", 1, partial(time.sleep, LONG))
        assert await offload.send("me", 1, os.getpid) != before
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)


async def test_who_leaves_the_queue_is_not_worked_for() -> None:
    async with offloading(processes=1) as offload, anyio.create_task_group() as tasks:
        tasks.start_soon(offload.send, "me", 1, partial(time.sleep, LONG))
        with anyio.move_on_after(0.1):
            await offload.send("other", 1, os.getpid)
        assert offload._queue.waiting == 0
        tasks.cancel_scope.cancel()
    assert offload._bytes.total() == 0


async def test_only_so_much_waits_and_one_owner_has_half_of_it() -> None:
    async with offloading(processes=1, queue_bytes=100) as offload:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(offload.send, "me", 30, partial(time.sleep, LONG))
            tasks.start_soon(offload.send, "other", 40, partial(time.sleep, LONG))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(Unavailable, match="offload_queue_bytes") as caught:
                await offload.send("me", 30, os.getpid)
            assert caught.value.retry_after == 1
            with pytest.raises(Unavailable):
                await offload.send("other", 20, os.getpid)
            with pytest.raises(Unavailable):
                await offload.send("third", 40, os.getpid)
            tasks.cancel_scope.cancel()


async def test_owners_take_turns_whatever_one_of_them_asks_for() -> None:
    queue, order = FairQueue(1), []

    async def ask(owner: str) -> None:
        await queue.acquire(owner)
        order.append(owner)
        queue.release(owner)

    await queue.acquire("first")
    async with anyio.create_task_group() as tasks:
        for owner in ("greedy", "greedy", "greedy", "alice", "bob"):
            tasks.start_soon(ask, owner)
            await anyio.wait_all_tasks_blocked()
        queue.release("first")
    assert order == ["greedy", "alice", "bob", "greedy", "greedy"]


async def test_one_place_is_left_for_the_next_owner() -> None:
    queue = FairQueue(3)
    await queue.acquire("greedy")
    await queue.acquire("greedy")
    with anyio.move_on_after(0.05) as scope:
        await queue.acquire("greedy")
    assert scope.cancelled_caught
    await queue.acquire("alice")
    assert repr(queue) == "<FairQueue 0 free, 0 waiting>"


async def test_a_place_that_came_too_late_goes_to_the_next() -> None:
    queue = FairQueue(1)

    async def come_late() -> None:
        await queue.acquire("late")
        queue.release("late")

    await queue.acquire("me")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(come_late)
        await anyio.wait_all_tasks_blocked()
        queue.release("me")
        tasks.cancel_scope.cancel()
    await queue.acquire("next")
