"""Responses as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec

from gateway.dialects.events import Json, RecordedTap, read_object
from gateway.dialects.openai_responses.errors import find_error, read_disguised_error
from gateway.dialects.openai_responses.gap import set_apart
from gateway.dialects.openai_responses.items import (
    CALLS,
    AnsweredItems,
    add_call_ids,
    client_items,
    fields_in,
    join_responses,
    join_usage,
    output_in,
    separate_ids,
    speaks,
    stop_of,
    text_in,
    text_of,
    usage_in,
    usage_of,
)
from gateway.dialects.raw_json import Fields, fields_of
from gateway.dialects.splices import WholeAnswer, WholeTap
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Stop, TurnEnd, Usage

CALL = b'_call"'


class _OutputText(msgspec.Struct, gc=False, tag="output_text"):
    text: str


class _OutputMessage(msgspec.Struct, gc=False, tag="message"):
    content: list[_OutputText]


class _OutputReasoning(msgspec.Struct, gc=False, tag="reasoning"):
    pass


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _ResponsesTokens(msgspec.Struct, gc=False):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None

    def usage(self) -> Usage:
        """Return what `usage_of` returns of the same object."""
        told, said = self.input_tokens_details, self.output_tokens_details
        return Usage(
            self.input_tokens,
            self.output_tokens,
            (told.cached_tokens if told else 0) or 0,
            (said.reasoning_tokens if said else 0) or 0,
        )


class _PlainResponse(msgspec.Struct, gc=False):
    """A response that says a text and nothing else: all that is looked at is here."""

    object: Literal["response"]
    status: Literal["completed"]
    output: list[_OutputMessage | _OutputReasoning]
    usage: _ResponsesTokens | None = None

    @property
    def speaks(self) -> bool:
        """Whether it says anything; thinking alone is not speaking."""
        said = (item.content for item in self.output if isinstance(item, _OutputMessage))
        return any(part.text for content in said for part in content)


_plain = msgspec.json.Decoder(_PlainResponse)


class ResponsesWhole(WholeAnswer["WholeResponsesTap"]):
    """Makes one body out of n: turn 1's id, all items, the last turn's end."""

    __slots__ = ()

    @property
    def answer_id(self) -> str:
        """The id by which the client knows the answer."""
        return text_in(self._taken[0].answer, "id") if self._taken else ""

    @property
    def upstream_id(self) -> str:
        """The id by which the upstream knows the last turn."""
        return text_in(self._taken[-1].answer, "id") if self._taken else ""

    def tap(self) -> WholeResponsesTap:
        """Begin to look at one attempt at the next turn."""
        return WholeResponsesTap(self.ids, self.server_tools, self._limit, len(self._taken))

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the body: turn 1's own bytes, or one body for all turns."""
        first, last = self._taken[0], self._taken[-1]
        if len(self._taken) == 1 and first.passes:
            return first.body
        items: list[Json] = []
        for tap in self._taken:
            shown = client_items(tap.items(), self.server_tools)
            items += set_apart(shown) if text_of(items) else shown
        usage = join_usage(usage_in(tap.answer) for tap in self._taken)
        joined = join_responses(first.answer, last.answer, separate_ids(items), usage)
        return msgspec.json.encode(joined)


@dataclass(slots=True, eq=False)
class WholeResponsesTap(WholeTap, RecordedTap):
    """One turn's body, as Responses has it."""

    _answer: Fields | None = None
    _items: list[Json] | None = None

    def _glance(self, body: bytes) -> TurnEnd:
        plain = _plain.decode(body)
        tokens = plain.usage
        return TurnEnd(
            stop=Stop.STOP,
            usage=tokens.usage() if tokens else None,
            spoke=plain.speaks,
        )

    def _read(self) -> None:
        answer = read_object(self.body)
        if answer is None:
            raise UpstreamBroke("The upstream's answer is not JSON.")
        if find_error(answer) is not None:
            raise read_disguised_error(self.body)

    @property
    def answer(self) -> Fields:
        """The members of the body; of a plain answer nearly nobody wants to know them."""
        if self._answer is None:
            self._answer = fields_of(self.body)
        return self._answer

    @property
    def passes(self) -> bool:
        """Whether its body may be shown as it is: no call is ours, or is without an id."""
        tools = self._tools
        if not tools or self.body.find(CALL) < 0:
            return True
        calls = [item for item in output_in(self.answer) if item.get("type") in CALLS]
        given = all(isinstance(ident := c.get("call_id"), str) and ident for c in calls)
        return given and client_items(calls, tools) == calls

    def items(self) -> list[Json]:
        """Return all items."""
        if self._items is None:
            new_id = partial(self._ids.make, text_in(self.answer, "id"), self._turn)
            self._items = add_call_ids(output_in(self.answer), new_id)
        return self._items

    def read_turn(self) -> AnsweredItems:
        """Return the turn's items, and whether the upstream has them in a conversation."""
        return AnsweredItems(self.items(), bool(fields_in(self.answer, "conversation")))

    def _judge_turn(self) -> TurnEnd:
        turn, tools = AnsweredItems(self.items()), self._tools
        stop = stop_of(text_in(self.answer, "status"), self.answer, turn.items)
        return TurnEnd(
            stop=stop,
            server_calls=turn.server_calls(tools),
            client_calls=bool(turn.client_calls(tools)),
            usage=usage_of(usage_in(self.answer)),
            spoke=speaks(turn.items),
            continuable=stop is not Stop.UNKNOWN,
        )
