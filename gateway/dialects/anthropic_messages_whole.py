"""Messages as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from functools import partial

import msgspec

from gateway.core.additions import AnsweredTurn
from gateway.core.model import Asked, Stop, TurnEnd
from gateway.dialects.anthropic_messages_errors import is_error, said
from gateway.dialects.anthropic_messages_turn import (
    PLAIN_STOP,
    Recorded,
    part_of,
    record_content,
    stop_of,
    totalled,
    usage_of,
)
from gateway.dialects.anthropic_messages_words import NULL, blocks_of
from gateway.dialects.base import Tap
from gateway.dialects.body import fields_of
from gateway.dialects.openai_chat_calls import CallIds, Json
from gateway.dialects.openai_chat_turn import read_object
from gateway.errors import UpstreamBroke

ENVELOPE = ("id", "type", "role", "model")


class MessagesWhole:
    """Makes one body out of n: turn 1's envelope, all blocks, the last turn's end."""

    content_type = b"application/json"

    __slots__ = ("_limit", "_taken", "ids", "server_tools")

    def __init__(self, asked: Asked, server_tools: frozenset[str], limit: int) -> None:
        self.ids = CallIds(asked.body)
        self.server_tools = server_tools
        self._limit = limit
        self._taken: list[WholeTap] = []

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""
        return not content_type or b"json" in content_type

    def tap(self) -> WholeTap:
        """Begin to look at one attempt at the next turn."""
        return WholeTap(self, self._limit, turn=len(self._taken))

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, WholeTap)
        self._taken.append(tap)

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._taken.clear()

    def rest(self) -> None:
        """Keep only what the rest of the answer takes."""
        self.ids.rest()

    def heartbeat(self) -> bytes:
        """Return nothing: a body has no frames to put one between."""
        return b""

    def tail(self, plainly: bool) -> bytes:
        """Return the body: turn 1's own bytes, or one body for all turns."""
        first, last = self._taken[0], self._taken[-1]
        plainly = plainly or last.hides_its_reason
        if first is last and not plainly and first.passes:
            return first.body
        return msgspec.json.encode(self._joined(plainly))

    def _joined(self, plainly: bool) -> Json:
        first, last = self._taken[0].answer, self._taken[-1].answer
        blocks = [b for tap in self._taken for b in tap.recorded().shown(self.server_tools)]
        envelope = {name: first[name] for name in ENVELOPE if name in first}
        answer = {**last, **envelope, "content": blocks}
        if plainly:
            answer["stop_reason"] = PLAIN_STOP
        if len(self._taken) > 1:
            answer["usage"] = totalled((tap.answer.get("model"), tap.usage) for tap in self._taken)
        return answer


class WholeTap:
    """Gathers one turn's body and reads it when it is all there."""

    __slots__ = (
        "_ids",
        "_limit",
        "_pieces",
        "_recorded",
        "_size",
        "_tools",
        "_turn",
        "answer",
        "body",
        "ended",
        "seen",
    )

    failure = None

    def __init__(self, splice: MessagesWhole, limit: int, turn: int) -> None:
        # Not the splice itself, which holds the tap: nothing of both would be freed at once.
        self._ids, self._tools = splice.ids, splice.server_tools
        self._turn = turn
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
    def usage(self) -> Json:
        """The turn's usage object."""
        return part_of(self.answer, "usage")

    @property
    def passes(self) -> bool:
        """Whether its body may be shown as it is: no call is ours, or is without an id."""
        tools, recorded = self._tools, self.recorded()
        return not tools or (recorded.had_ids and not recorded.server_calls(tools))

    @property
    def hides_its_reason(self) -> bool:
        """Whether it ended for calls that nobody sees."""
        end = self.end()
        return end.stop is Stop.TOOL_CALLS and bool(end.server_calls) and not end.client_calls

    def recorded(self) -> Recorded:
        """Read the content."""
        if self._recorded is None:
            new_id = partial(self._ids.make, self.answer.get("id"), self._turn)
            content = blocks_of(fields_of(self.body).get("content", NULL)) or []
            self._recorded = record_content(content, new_id)
        return self._recorded

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        reason, tools = self.answer.get("stop_reason"), self._tools
        recorded = self.recorded()
        return TurnEnd(
            stop=stop_of(reason),
            server_calls=recorded.server_calls(tools),
            client_calls=bool(recorded.client_call_ids(tools)),
            usage=usage_of(self.usage),
            spoke=bool(recorded.message()["content"]),
            continuable=isinstance(reason, str),
        )

    def answered(self) -> AnsweredTurn:
        """Rebuild the assistant's turn."""
        return AnsweredTurn(self.recorded().message())

    def client_call_ids(self) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees."""
        return self.recorded().client_call_ids(self._tools)

    def text(self) -> str:
        """Return the text the turn said."""
        return self.recorded().text
