"""Collects an answer that no client waits for: the text, and what went wrong."""

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

NO_CLIENT = "The model called a tool that only a client can run, and a job has no client."
CUT_SHORT = "The model gave no final answer after its tools returned."


class CollectingClient:
    """The client and the observer of one exchange without a connection: it never disconnects."""

    wants: Wants = frozenset({RequestExtended, TurnEnded, ExchangeFailed})

    # For the runner the answer has always started, so errors come in the stream.
    started = True
    scope: anyio.CancelScope | None = None
    # Each write is taken completely before more is read.
    blocked = False
    last = 0.0
    blocked_since: float | None = None

    def __init__(self) -> None:
        self.give_up: Callable[[], None] = _nothing
        self._texts: list[str] = []
        self._failure = ""
        self._calls_client_tools = False
        self._open = True

    def __repr__(self) -> str:
        return f"<CollectingClient {len(self._texts)} turns, {'open' if self._open else 'whole'}>"

    # The client.

    def rest(self) -> None:
        """Do nothing: there is no connection."""

    def send_heartbeat_now(self) -> bool:
        """Return True: no heartbeat is needed."""
        return True

    async def send_heartbeat(self) -> None:
        """Do nothing: no heartbeat is needed."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Do nothing: this client never disconnects."""
        return _nothing

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Do nothing: there is no response to prepare."""

    async def frames(self, frames: bytes) -> None:
        """Ignore frames: whole turns are taken from the observer."""

    async def drain(self) -> None:
        """Do nothing: there is nothing to flush."""

    async def end(self, frames: bytes) -> None:
        """Ignore the last frames: failures are taken from the observer."""

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Ignore the body: refusals are taken from the observer."""

    # The observer.

    def observe(self, at: float, happening: Happening) -> None:
        """Collect the text of turns, and note whether the answer is complete."""
        match happening:
            case RequestExtended(additions):
                if any(not isinstance(addition, AnsweredTurn) for addition in additions):
                    self._open = True
            case TurnEnded(turn, read_text):
                if (text := read_text()).strip():
                    self._texts.append(text)
                self._calls_client_tools = turn.client_calls
                self._open = bool(turn.server_calls)
            case ExchangeFailed(error):
                self._failure = _describe(error)

    def sum_up(self) -> RunOutcome:
        """Return the outcome of the run."""
        text = "\n\n".join(self._texts)
        if self._failure:
            return RunOutcome("error", text, self._failure)
        if self._calls_client_tools:
            return RunOutcome("error", text, NO_CLIENT)
        return RunOutcome("error", text, CUT_SHORT) if self._open else RunOutcome("ok", text)


def _describe(error: HoldgateError) -> str:
    """Return the error message: the upstream's own, if it has one."""
    answer = read_object(error.body) if isinstance(error, UpstreamAnswered) else None
    return error.message if answer is None else read_failure(answer, error.status).message


def _nothing() -> None:
    return None
