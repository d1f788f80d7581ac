"""Messages as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec

from gateway.dialects.anthropic_messages.turn import (
    PLAIN_STOP,
    RecordedMessagesTurn,
    is_error,
    read_disguised_error,
    record_content,
    set_apart,
    stop_of,
    text_in,
    total_usage,
    usage_of,
)
from gateway.dialects.events import Json, part_of
from gateway.dialects.raw_json import NULL, fields_of, raws_in
from gateway.dialects.splices import WholeAnswer, WholeObjectTap
from gateway.errors import UpstreamError
from gateway.exchange.model import TurnEnd, Usage

ENVELOPE = ("id", "type", "role", "model")


class _TextBlock(msgspec.Struct, gc=False):
    type: Literal["text"]
    text: str


class _ThinkingDetails(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class _MessagesTokens(msgspec.Struct, gc=False):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _ThinkingDetails | None = None

    def usage(self) -> Usage:
        """Count what came from a cache as well: it was told too."""
        cached, said = self.cache_read_input_tokens or 0, self.output_tokens_details
        told = self.input_tokens + (self.cache_creation_input_tokens or 0) + cached
        thought = (said.thinking_tokens if said else 0) or 0
        return Usage(told, self.output_tokens, cached, thought)


class _PlainMessage(msgspec.Struct, gc=False):
    """A message that says a text and nothing else: all that is looked at is here."""

    type: Literal["message"]
    content: list[_TextBlock]
    stop_reason: str
    usage: _MessagesTokens | None = None


_plain = msgspec.json.Decoder(_PlainMessage)


class MessagesWhole(WholeAnswer["WholeMessagesTap"]):
    """Makes one body out of n: turn 1's envelope, all blocks, the last turn's end."""

    __slots__ = ()

    def tap(self) -> WholeMessagesTap:
        """Begin to look at one attempt at the next turn."""
        return WholeMessagesTap(self.ids, self.server_tools, self._limit, len(self._taken))

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the body: turn 1's own bytes, or one body for all turns."""
        first, last = self._taken[0], self._taken[-1]
        neutral_finish = neutral_finish or last.hides_its_reason
        if first is last and not neutral_finish and first.passes:
            return first.body
        return msgspec.json.encode(self._join_turns(neutral_finish))

    def _join_turns(self, neutral_finish: bool) -> Json:
        first, last = self._taken[0].answer, self._taken[-1].answer
        blocks: list[Json] = []
        for tap in self._taken:
            shown = tap.read_turn().client_blocks(self.server_tools)
            blocks += _apart(shown) if any(map(_text_of, blocks)) else shown
        envelope = {name: first[name] for name in ENVELOPE if name in first}
        answer = {**last, **envelope, "content": blocks}
        if neutral_finish:
            answer["stop_reason"] = PLAIN_STOP
        if len(self._taken) > 1:
            counts = ((tap.answer.get("model"), tap.usage) for tap in self._taken)
            answer["usage"] = total_usage(counts)
        return answer


def _text_of(block: Json) -> str:
    return text_in({"content_block": block})


def _apart(blocks: list[Json]) -> list[Json]:
    """Begin the first text of a later turn with an empty line."""
    at = next((at for at, block in enumerate(blocks) if _text_of(block)), len(blocks))
    return [*blocks[:at], *map(set_apart, blocks[at : at + 1]), *blocks[at + 1 :]]


@dataclass(slots=True, eq=False)
class WholeMessagesTap(WholeObjectTap):
    """One turn's body, as Messages has it."""

    _recorded: RecordedMessagesTurn | None = None

    def _glance(self, body: bytes) -> TurnEnd:
        plain = _plain.decode(body)
        return TurnEnd(
            stop=stop_of(plain.stop_reason),
            usage=plain.usage.usage() if plain.usage else None,
            spoke=any(block.text.strip() for block in plain.content),
        )

    def _find_error(self, answer: Json) -> UpstreamError | None:
        return read_disguised_error(self.body) if is_error(answer) else None

    @property
    def usage(self) -> Json:
        """The turn's usage object."""
        return part_of(self.answer, "usage")

    @property
    def passes(self) -> bool:
        """Whether its body may be shown as it is: no call is ours, or is without an id."""
        if not self._tools or self._answer is None:
            # A glance was enough: it says a text.
            return True
        recorded = self.read_turn()
        return recorded.had_ids and not recorded.server_calls(self._tools)

    def read_turn(self) -> RecordedMessagesTurn:
        """Read the content."""
        if self._recorded is None:
            new_id = partial(self._ids.make, self.answer.get("id"), self._turn)
            content = raws_in(fields_of(self.body).get("content", NULL)) or []
            self._recorded = record_content(content, new_id)
        return self._recorded

    def _judge_turn(self) -> TurnEnd:
        reason, tools = self.answer.get("stop_reason"), self._tools
        recorded = self.read_turn()
        return TurnEnd(
            stop=stop_of(reason),
            server_calls=recorded.server_calls(tools),
            client_calls=bool(recorded.client_call_ids(tools)),
            usage=usage_of(self.usage),
            spoke=bool(recorded.message()["content"]),
            continuable=isinstance(reason, str),
        )
