"""Waits `settle_ms` for the first content of a turn, so that a failing route can be replaced."""

from __future__ import annotations

import asyncio

import anyio

from gateway.exchange.state import ExchangeState
from gateway.wire.http_client.upstream import Turn, WrappedTurn


async def settle(state: ExchangeState, seconds: float) -> None:
    """Wait so long for the first content, or raise the error that comes instead.

    So an error told inside of a stream is the same failure of its route however its frames arrive.
    """
    assert state.turn is not None
    if not seconds or _has_settled(state, state.first):
        return
    turn = state.turn = ReadAhead(state.turn)
    deadline = anyio.current_time() + seconds
    state.splice.settling = True
    try:
        while await turn.wait(deadline - anyio.current_time()):
            shown = await _read(state, turn)
            state.first += shown
            if _has_settled(state, shown):
                # Nothing is under way: the rest is read without a step between.
                state.turn = turn.turn
                return
    finally:
        state.splice.settling = False


def _has_settled(state: ExchangeState, shown: bytes) -> bool:
    """Tell whether the turn has begun, or is over; raises the error that ended it instead."""
    tap = state.tap
    assert tap is not None
    if state.request.dialect.shows_content(shown):
        return True
    if tap.failure is not None:
        raise tap.failure
    return tap.ended


async def _read(state: ExchangeState, turn: Turn) -> bytes:
    assert state.tap is not None
    try:
        data = await anext(turn)
    except StopAsyncIteration:
        return state.tap.close()
    state.turn_bytes += len(data)
    state.turn_reads += 1
    return state.tap.feed(data)


class ReadAhead(WrappedTurn):
    """A turn whose next read can be waited for without being cancelled when the wait is over."""

    __slots__ = ("_read",)

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._read: asyncio.Task[bytes] | None = None

    async def __anext__(self) -> bytes:
        read, self._read = self._read, None
        return await (self.turn.__anext__() if read is None else read)

    async def wait(self, seconds: float) -> bool:
        """Tell whether the next read is there within so many seconds; else it goes on."""
        if self._read is None:
            # A bare task, awaited by the next read or ended by closing the turn.
            self._read = asyncio.get_running_loop().create_task(self.turn.__anext__())
        done, _ = await asyncio.wait((self._read,), timeout=max(seconds, 0))
        return bool(done)

    @property
    def over(self) -> bool:
        """Whether all of it was read."""
        return self._read is None and self.turn.over

    def pause(self) -> None:
        """Read nothing ahead until more is asked for; a read under way is asked for."""
        if self._read is None:
            self.turn.pause()

    async def aclose(self) -> None:
        """End the read that is under way, and close the connection."""
        read, self._read = self._read, None
        if read is not None:
            read.cancel()
            await asyncio.gather(read, return_exceptions=True)
        await self.turn.aclose()
