"""Responses as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from functools import partial

import msgspec

from gateway.core.additions import AnsweredTurn
from gateway.core.model import Asked, Stop, TurnEnd
from gateway.dialects.base import Tap
from gateway.dialects.body import Fields, fields_of
from gateway.dialects.openai_chat_calls import CallIds, Json
from gateway.dialects.openai_chat_turn import read_object
from gateway.dialects.openai_responses_errors import said, told
from gateway.dialects.openai_responses_items import (
    CALLS,
    Answered,
    apart,
    client_call_ids,
    client_calls,
    fields_in,
    identified,
    joined,
    output_in,
    server_calls,
    speaks,
    spent,
    stop_of,
    text_in,
    text_of,
    theirs,
    usage_in,
    usage_of,
)
from gateway.errors import UpstreamBroke

CALL = b'_call"'


class ResponsesWhole:
    """Makes one body out of n: turn 1's id, all items, the last turn's end."""

    content_type = b"application/json"

    __slots__ = ("_limit", "_taken", "ids", "server_tools")

    def __init__(self, asked: Asked, server_tools: frozenset[str], limit: int) -> None:
        self.ids = CallIds(asked.body)
        self.server_tools = server_tools
        self._limit = limit
        self._taken: list[WholeTap] = []

    @property
    def answer_id(self) -> str:
        """The id by which the client knows the answer."""
        return text_in(self._taken[0].answer, "id") if self._taken else ""

    @property
    def upstream_id(self) -> str:
        """The id by which the upstream knows the last turn."""
        return text_in(self._taken[-1].answer, "id") if self._taken else ""

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
        if len(self._taken) == 1 and first.passes:
            return first.body
        items = apart(
            item for tap in self._taken for item in theirs(tap.items(), self.server_tools)
        )
        usage = spent(usage_in(tap.answer) for tap in self._taken)
        return msgspec.json.encode(joined(first.answer, last.answer, items, usage))


class WholeTap:
    """Gathers one turn's body and reads it when it is all there."""

    __slots__ = (
        "_ids",
        "_items",
        "_limit",
        "_pieces",
        "_size",
        "_tools",
        "_turn",
        "answer",
        "body",
        "ended",
        "seen",
    )

    failure = None

    def __init__(self, splice: ResponsesWhole, limit: int, turn: int) -> None:
        # Not the splice itself, which holds the tap: nothing of both would be freed at once.
        self._ids, self._tools = splice.ids, splice.server_tools
        self._turn = turn
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._items: list[Json] | None = None
        self.body = b""
        self.answer: Fields = {}
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
        if told(answer) is not None:
            raise said(self.body)
        self.answer = fields_of(self.body)
        self.seen = self.ended = True
        return b""

    @property
    def passes(self) -> bool:
        """Whether its body may be shown as it is: no call is ours, or is without an id."""
        tools = self._tools
        if not tools or CALL not in self.body:
            return True
        calls = [item for item in output_in(self.answer) if item.get("type") in CALLS]
        given = all(isinstance(ident := c.get("call_id"), str) and ident for c in calls)
        return given and theirs(calls, tools) == calls

    def items(self) -> list[Json]:
        """Return all items."""
        if self._items is None:
            new_id = partial(self._ids.make, text_in(self.answer, "id"), self._turn)
            self._items = identified(output_in(self.answer), new_id)
        return self._items

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        items, tools = self.items(), self._tools
        stop = stop_of(text_in(self.answer, "status"), self.answer, items)
        return TurnEnd(
            stop=stop,
            server_calls=server_calls(items, tools),
            client_calls=bool(client_calls(items, tools)),
            usage=usage_of(usage_in(self.answer)),
            spoke=speaks(items),
            continuable=stop is not Stop.UNKNOWN,
        )

    def answered(self) -> AnsweredTurn:
        """Return the turn's items, for a follow-up."""
        return AnsweredTurn(Answered(self.items(), bool(fields_in(self.answer, "conversation"))))

    def client_call_ids(self) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees."""
        return client_call_ids(self.items(), self._tools)

    def text(self) -> str:
        """Return the text the turn said."""
        return text_of(self.items())
