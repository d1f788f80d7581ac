"""Listens to an answer that no client waits for: what was said, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gateway.dialects.events import read_object
from gateway.dialects.translate.errors import read_failure
from gateway.errors import Headers, HoldgateError, UpstreamAnswered
from gateway.exchange.additions import AnsweredTurn
from gateway.exchange.observer import (
    ExchangeFailed,
    Happening,
    RequestExtended,
    TurnEnded,
    Wants,
)
from gateway.jobs.run_services import RunOutcome

NOBODY = "The model called a tool that only a client can run, and a job has no client."
CUT_SHORT = "The model gave no final answer after its tools returned."


class CollectingClient:
    """The client and the observer of one exchange: it never leaves, and shows nobody anything."""

    wants: Wants = frozenset({RequestExtended, TurnEnded, ExchangeFailed})

    # To the runner the answer has always begun: what fails is said in the stream.
    started = True
    scope: anyio.CancelScope | None = None
    # What it is shown is taken before more is read.
    blocked = False
    last = 0.0
    blocked_since: float | None = None

    def __init__(self) -> None:
        self.give_up: Callable[[], None] = _nothing
        self._texts: list[str] = []
        self._failure = ""
        self._strange = False
        self._open = True

    def __repr__(self) -> str:
        return f"<CollectingClient {len(self._texts)} turns, {'open' if self._open else 'whole'}>"

    # What it is shown.

    def rest(self) -> None:
        """Have nothing to let go of."""

    def send_heartbeat_now(self) -> bool:
        """Need no heartbeat."""
        return True

    async def send_heartbeat(self) -> None:
        """Need no heartbeat."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Never leave."""
        return _nothing

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Prepare nothing."""

    async def frames(self, frames: bytes) -> None:
        """Hear the turns when they have ended, not as they come."""

    async def drain(self) -> None:
        """Never have to be waited for."""

    async def end(self, frames: bytes) -> None:
        """Need no frames: what fails is told to the observer."""

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Need no body: a refusal is told to the observer."""

    # What it observes.

    def observe(self, at: float, happening: Happening) -> None:
        """Take what turns said, and whether they leave something open."""
        match happening:
            case RequestExtended(additions):
                if any(not isinstance(addition, AnsweredTurn) for addition in additions):
                    self._open = True
            case TurnEnded(turn, read_text):
                if (text := read_text()).strip():
                    self._texts.append(text)
                self._strange = turn.client_calls
                self._open = bool(turn.server_calls)
            case ExchangeFailed(error):
                self._failure = _describe(error)

    def sum_up(self) -> RunOutcome:
        """Say how it all ended."""
        text = "\n\n".join(self._texts)
        if self._failure:
            return RunOutcome("error", text, self._failure)
        if self._strange:
            return RunOutcome("error", text, NOBODY)
        return RunOutcome("error", text, CUT_SHORT) if self._open else RunOutcome("ok", text)


def _describe(error: HoldgateError) -> str:
    """Say what went wrong: in the upstream's own words, if it has any."""
    answer = read_object(error.body) if isinstance(error, UpstreamAnswered) else None
    return error.message if answer is None else read_failure(answer, error.status).message


def _nothing() -> None:
    return None
