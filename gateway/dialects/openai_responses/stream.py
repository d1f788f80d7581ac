"""Responses as a stream: the splice of n turns."""

from __future__ import annotations

import msgspec

from gateway.dialects.events import Json, StreamSplice
from gateway.dialects.openai_responses.answer import FinishedResponsesTurn, ResponsesAnswer
from gateway.dialects.openai_responses.errors import find_own_end, lifecycle, render_failure
from gateway.dialects.openai_responses.items import (
    join_responses,
    join_usage,
    text_in,
    text_of,
    usage_in,
)
from gateway.dialects.openai_responses.output import Start
from gateway.dialects.openai_responses.tap import ResponsesTap
from gateway.dialects.protocol import Tap
from gateway.dialects.raw_json import raw
from gateway.errors import HoldgateError
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import encode

IN_PROGRESS = "response.in_progress"
WAIT = b": wait\n"


class ResponsesStream(StreamSplice):
    """Makes one stream out of n: one beginning, one id, items numbered through, one end."""

    __slots__ = ("_answer", "_live", "_taken")

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> None:
        super().__init__(asked, server_tools, event_bytes)
        self._answer = ResponsesAnswer(self._ids, server_tools)
        self._taken: list[ResponsesTap | FinishedResponsesTurn] = []
        self._live: ResponsesTap | None = None

    @property
    def answer_id(self) -> str:
        """The id by which the client knows the answer."""
        return self._answer.id

    @property
    def upstream_id(self) -> str:
        """The id by which the upstream knows the last turn."""
        return text_in(self._taken[-1].final, "id") if self._taken else ""

    def tap(self) -> ResponsesTap:
        """Begin to look at one attempt at the next turn."""
        self._live = ResponsesTap(self._answer, len(self._taken), self._event_bytes)
        if not self._taken:
            self._answer.envelope = None
        else:
            shown = self._list_taken()
            ids = {item["id"] for item in shown if isinstance(item.get("id"), str)}
            sequence = self._taken[-1].last_sequence()
            self._live.join(Start(len(shown), ids), sequence, bool(text_of(shown)))
        return self._live

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, ResponsesTap)
        self._taken.append(tap)
        self._live = None

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._taken.clear()
        self._live = None

    def rest(self) -> None:
        """Keep only what the rest of the answer takes."""
        self._taken = [t.summarize() if isinstance(t, ResponsesTap) else t for t in self._taken]
        super().rest()

    def heartbeat(self) -> bytes:
        """Return the response as it stands: clients forget what it does not list.

        A bare comment line where that cannot be told: before it has begun, or after it got too
        long to be remembered.
        """
        shown, envelope = self._list_shown(), self._answer.envelope
        if envelope is None or shown is None or self.settling:
            return WAIT
        changes = {"status": raw("in_progress"), "output": raw(shown)}
        return lifecycle(IN_PROGRESS, {**envelope, **changes}, max(self._sequence(), 0))

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the end of the answer: turn 1's own bytes, or one end for all turns.

        To end plainly needs no other words: `completed` is the end of a call as of a stop.
        """
        last = self._taken[-1]
        if len(self._taken) == 1 and not last.edited:
            return last.end_frame
        usage = join_usage(usage_in(tap.final) for tap in self._taken)
        first = self._answer.envelope or {}
        response = join_responses(first, last.final, self._list_taken(), usage)
        event = {"type": last.end_kind, "sequence_number": self._sequence() + 1}
        return encode(msgspec.json.encode({**event, "response": response}), last.end_kind)

    def error_frame(self, error: HoldgateError) -> bytes:
        """Render an error as the end of this answer; the first turn's own end passes as it is."""
        live = self._live
        is_as_it_came = live is not None and not self._taken and not live.edited
        if is_as_it_came and (end := find_own_end(error)):
            return end
        shown, next_number = self._list_shown() or (), self._sequence() + 1
        return render_failure(error, self._answer.envelope, shown, next_number)

    def _list_shown(self) -> list[Json] | None:
        """Return all items the client has seen, as far as it has; None if nobody knows."""
        shown = self._list_taken()
        if self._live is None:
            return shown
        live = self._live.list_shown()
        return None if live is None else shown + live

    def _list_taken(self) -> list[Json]:
        return [item for tap in self._taken for item in tap.visible()]

    def _sequence(self) -> int:
        """Return the number of the last event that was shown."""
        if self._live is not None:
            return self._live.last_sequence()
        return self._taken[-1].last_sequence() if self._taken else -1
