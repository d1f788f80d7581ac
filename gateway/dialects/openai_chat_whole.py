"""Chat Completions as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

import msgspec

from gateway.core.additions import AnsweredTurn
from gateway.core.model import Asked, Stop, ToolCall, TurnEnd
from gateway.dialects.base import Tap
from gateway.dialects.openai_chat_turn import (
    Json,
    Recorded,
    first_choice,
    function_of,
    is_error,
    part_of,
    read_object,
    record_message,
    said,
    stop_of,
    summed,
    usage_of,
)
from gateway.errors import UpstreamBroke


class ChatWhole:
    """Makes one body out of n: turn 1's envelope, all texts and calls, the last reason."""

    content_type = b"application/json"

    __slots__ = ("_limit", "_taken", "choices", "server_tools")

    def __init__(self, asked: Asked, server_tools: frozenset[str], limit: int) -> None:
        self.choices = asked.choices
        self.server_tools = server_tools
        self._limit = limit
        self._taken: list[WholeTap] = []

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""
        return not content_type or b"json" in content_type

    def tap(self) -> WholeTap:
        """Begin to look at one attempt at the next turn."""
        return WholeTap(self, self._limit)

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, WholeTap)
        self._taken.append(tap)

    def heartbeat(self) -> bytes:
        """Return nothing: a body has no frames to put one between."""
        return b""

    def tail(self, plainly: bool) -> bytes:
        """Return the body: turn 1's own bytes, or one body for all turns."""
        first = self._taken[0]
        if len(self._taken) == 1 and not plainly and not first.server_calls:
            return first.body
        return msgspec.json.encode(self._joined(plainly))

    def _joined(self, plainly: bool) -> Json:
        first, last = self._taken[0].answer, self._taken[-1].answer
        recorded = [tap.recorded() for tap in self._taken]
        message = dict(part_of(first_choice(last), "message"))
        message["content"] = "\n\n".join(r.text for r in recorded if r.text) or None
        calls = [call for tap in self._taken for call in tap.client_calls]
        message.pop("tool_calls", None)
        if calls:
            message["tool_calls"] = calls
        choice = {**first_choice(last), "index": 0, "message": message}
        if plainly:
            choice["finish_reason"] = "stop"
        answer = {**first, "choices": [choice]}
        if usage := summed(tap.usage for tap in self._taken):
            answer["usage"] = usage
        return answer


class WholeTap:
    """Gathers one turn's body and reads it when it is all there."""

    __slots__ = (
        "_limit",
        "_pieces",
        "_recorded",
        "_size",
        "_splice",
        "answer",
        "body",
        "ended",
        "seen",
    )

    failure = None

    def __init__(self, splice: ChatWhole, limit: int) -> None:
        self._splice = splice
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.body = b""
        self.answer: Json = {}
        self._recorded: Recorded | None = None
        self.seen = False
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """Take what came; nothing is shown before the end."""
        self._size += len(data)
        if self._size > self._limit:
            raise UpstreamBroke(f"The upstream's answer is longer than {self._limit} bytes.")
        self._pieces.append(data)
        return b""

    def close(self) -> bytes:
        """Take the end of the body and read it."""
        self.body = b"".join(self._pieces)
        self._pieces.clear()
        answer = read_object(self.body)
        if answer is None:
            raise UpstreamBroke("The upstream's answer is not JSON.")
        if is_error(answer):
            raise said(self.body)
        self.answer = answer
        self.seen = self.ended = True
        return b""

    @property
    def usage(self) -> Json | None:
        """The turn's usage object."""
        usage = self.answer.get("usage")
        return usage if isinstance(usage, dict) else None

    @property
    def server_calls(self) -> tuple[ToolCall, ...]:
        """The calls to our own tools."""
        return tuple(
            ToolCall(call.get("id") or f"call_{index}", function["name"], _arguments(function))
            for index, call in enumerate(self.recorded().calls)
            if (function := function_of(call)).get("name") in self._splice.server_tools
        )

    @property
    def client_calls(self) -> list[Json]:
        """The calls that the client sees."""
        tools = self._splice.server_tools
        return [c for c in self.recorded().calls if function_of(c).get("name") not in tools]

    def recorded(self) -> Recorded:
        """Read the message."""
        if self._recorded is None:
            self._recorded = record_message(part_of(first_choice(self.answer), "message"))
        return self._recorded

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        choice = first_choice(self.answer)
        stop = stop_of(choice.get("finish_reason"))
        recorded = self.recorded()
        if stop is Stop.STOP and recorded.refusal:
            stop = Stop.FILTER
        calls = bool(recorded.calls)
        legacy = bool(part_of(choice, "message").get("function_call"))
        return TurnEnd(
            stop=stop,
            server_calls=self.server_calls if calls else (),
            client_calls=(calls and bool(self.client_calls)) or legacy,
            usage=usage_of(self.usage),
            spoke=bool(recorded.text) or calls or legacy,
            continuable=self._splice.choices == 1 and stop is not Stop.UNKNOWN,
        )

    def answered(self) -> AnsweredTurn:
        """Rebuild the assistant's turn."""
        return AnsweredTurn(self.recorded().message())

    def text(self) -> str:
        """Return the text the turn said."""
        return self.recorded().text


def _arguments(function: Json) -> str:
    arguments = function.get("arguments")
    return arguments if isinstance(arguments, str) else "{}"
