"""Who sends large work to helper processes, within bounds on time, memory and each owner's part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from anyio.to_thread import run_sync

from gateway.errors import Unavailable
from gateway.offload.process import HelperProcess
from gateway.offload.turns import FairQueue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OffloadSettings:
    """What is done beside the loop, and how much of it at a time."""

    above: int = 128 * 1024
    """Work on so many bytes is still done at once."""
    processes: int = 2
    """How many helpers there are at the most; with none all work is done at once."""
    seconds: float = 60.0
    """How long one piece of work may take."""
    queue_bytes: int = 256 * 1024 * 1024
    """How much may wait or be worked on at a time; one owner may have half of it."""


class Offload:
    """Does large work in helper processes, which are started when they are needed."""

    def __init__(self, settings: OffloadSettings | None = None) -> None:
        self.settings = settings or OffloadSettings()
        self.above = self.settings.above if self.settings.processes else 2**63
        """What is larger than so many bytes is worked on beside the loop."""
        self._queue = FairQueue(self.settings.processes)
        self._limiter: anyio.CapacityLimiter | None = None
        self._resting: list[HelperProcess] = []
        self._closed = False
        self._bytes: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Offload {self._queue!r}, {self._bytes.total()} bytes>"

    async def run(self, owner: str, size: int, work: Callable[[], T]) -> T:
        """Do work on so many bytes: at once if they are few, else beside the loop."""
        return work() if size <= self.above else await self.send(owner, size, work)

    async def send(self, owner: str, size: int, work: Callable[[], T]) -> T:
        """Have work done by a helper, in the owner's turn; it raises what the work raises.

        It must be a pure function of a module, with its arguments: it is pickled. Who is cancelled
        leaves the queue, or ends the helper that works for nobody any more.
        """
        if not self.settings.processes:
            return work()
        self._admit(owner, size)
        try:
            await self._queue.acquire(owner)
            try:
                done, result = await self._call(work)
            finally:
                self._queue.release(owner)
        finally:
            self._dismiss(owner, size)
        if not done:
            raise result
        found: T = result
        return found

    async def aclose(self) -> None:
        """End the helpers; those at work end with it."""
        self._closed = True
        while self._resting:
            await run_sync(self._resting.pop().close)

    def _admit(self, owner: str, size: int) -> None:
        most = self.settings.queue_bytes
        mine, all_of_them = self._bytes[owner], self._bytes.total()
        # A single body is let in in any case, whatever the limits say of each other.
        if (mine and mine + size > most // 2) or (all_of_them and all_of_them + size > most):
            says = "Too many large requests are waiting (limits.offload_queue_bytes); try again."
            raise Unavailable(says, retry_after=1)
        self._bytes[owner] += size

    def _dismiss(self, owner: str, size: int) -> None:
        self._bytes[owner] -= size
        if not self._bytes[owner]:
            del self._bytes[owner]

    async def _call(self, work: Callable[[], Any]) -> tuple[bool, Any]:
        helper = self._wake()
        try:
            with anyio.fail_after(self.settings.seconds):
                if helper is None:
                    helper = await run_sync(HelperProcess, limiter=self._threads())
                reply = await self._ask(helper, work)
                # The answer was waited for behind a shield.
                await checkpoint_if_cancelled()
        except TimeoutError:
            says = f"Reading the request took longer than {self.settings.seconds:g} s"
            raise Unavailable(f"{says} (limits.offload_ms); send a smaller one.") from None
        finally:
            await self._put_back(helper)
        if reply is None:
            raise Unavailable("The process that read the request stopped; send a smaller request.")
        return reply

    async def _ask(self, helper: HelperProcess, work: Callable[[], Any]) -> tuple[bool, Any] | None:
        """Wait for a helper's answer; who is cancelled ends the helper, and so the waiting."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_when_cancelled, helper)
            reply = await run_sync(helper.call, work, limiter=self._threads())
            helper.busy = False
            tasks.cancel_scope.cancel()
        return reply

    def _wake(self) -> HelperProcess | None:
        """Return a helper that rests; one that died meanwhile is nobody's fault, and forgotten."""
        while self._resting:
            helper = self._resting.pop()
            if helper.is_alive:
                return helper
            helper.close()
        return None

    def _threads(self) -> anyio.CapacityLimiter:
        """Return the threads that wait for helpers: others must not wait for these."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(2 * self.settings.processes)
        return self._limiter

    async def _put_back(self, helper: HelperProcess | None) -> None:
        """Keep a helper for the next, or see to its end."""
        if helper is None:
            return
        if not (helper.over or self._closed):
            self._resting.append(helper)
            return
        with anyio.CancelScope(shield=True):
            await run_sync(helper.close, limiter=self._threads())


async def _kill_when_cancelled(helper: HelperProcess) -> None:
    helper.busy = True
    try:
        await anyio.sleep_forever()
    finally:
        if helper.busy:
            helper.kill()
