"""Chat Completions as one JSON body: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import msgspec

from gateway.dialects.events import Json, part_of, sum_usage
from gateway.dialects.openai_chat.turn import (
    RecordedChatTurn,
    calls_of,
    first_choice,
    ident_of,
    is_error,
    read_disguised_error,
    record_message,
    stop_of,
    usage_of,
)
from gateway.dialects.splices import WholeAnswer, WholeObjectTap
from gateway.errors import UpstreamError
from gateway.exchange.model import ModelRequest, Stop, TurnEnd, Usage

# What a message may hold beside what it says; without it there is little to read.
BESIDE_TEXT = ("tool_calls", "refusal", "function_call")
TOOL_CALLS = b'"tool_calls"'


class _PlainChatMessage(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: None = None
    refusal: None = None
    function_call: None = None


class _PlainChoice(msgspec.Struct, gc=False):
    message: _PlainChatMessage
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _ChatTokens(msgspec.Struct, gc=False):
    prompt_tokens: int
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def usage(self) -> Usage:
        """Return what `usage_of` returns of the same object."""
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            (prompt.cached_tokens if prompt else 0) or self.prompt_cache_hit_tokens or 0,
            (completion.reasoning_tokens if completion else 0) or 0,
        )


class _PlainCompletion(msgspec.Struct, gc=False):
    """An answer that says a text and nothing else, as most do: all that is looked at is here."""

    choices: Annotated[list[_PlainChoice], msgspec.Meta(min_length=1)]
    usage: _ChatTokens | None = None
    error: None = None


_plain = msgspec.json.Decoder(_PlainCompletion)


class ChatWhole(WholeAnswer["WholeChatTap"]):
    """Makes one body out of n: turn 1's envelope, all texts and calls, the last reason."""

    __slots__ = ("choices",)

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], limit: int) -> None:
        super().__init__(asked, server_tools if asked.choices == 1 else frozenset(), limit)
        self.choices = asked.choices

    def tap(self) -> WholeChatTap:
        """Begin to look at one attempt at the next turn."""
        turn = len(self._taken)
        return WholeChatTap(self.ids, self.server_tools, self._limit, turn, choices=self.choices)

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the body: turn 1's own bytes, or one body for all turns."""
        first = self._taken[0]
        if len(self._taken) == 1 and not neutral_finish and first.passes:
            return first.body
        return msgspec.json.encode(self._join_turns(neutral_finish))

    def _join_turns(self, neutral_finish: bool) -> Json:
        first, last = self._taken[0].answer, self._taken[-1].answer
        recorded = [tap.read_turn() for tap in self._taken]
        message = dict(part_of(first_choice(last), "message"))
        message["content"] = "\n\n".join(r.text for r in recorded if r.text) or None
        calls = [call for r in recorded for call in r.client_calls(self.server_tools)]
        message.pop("tool_calls", None)
        if calls:
            message["tool_calls"] = calls
        choice = {**first_choice(last), "index": 0, "message": message}
        if neutral_finish or self._taken[-1].hides_its_reason:
            choice["finish_reason"] = "stop"
        answer = {**first, "choices": [choice]}
        if usage := sum_usage(tap.usage for tap in self._taken):
            answer["usage"] = usage
        return answer


@dataclass(slots=True, eq=False)
class WholeChatTap(WholeObjectTap):
    """One turn's body, as Chat Completions has it."""

    choices: int = 1
    _recorded: RecordedChatTurn | None = None

    def _find_error(self, answer: Json) -> UpstreamError | None:
        return read_disguised_error(self.body) if is_error(answer) else None

    @property
    def usage(self) -> Json | None:
        """The turn's usage object."""
        usage = self.answer.get("usage")
        return usage if isinstance(usage, dict) else None

    @property
    def passes(self) -> bool:
        """Whether its body may be shown as it is: no call is ours, or is without an id."""
        tools = self._tools
        if not tools or self.body.find(TOOL_CALLS) < 0 or not self.read_turn().calls:
            return True
        recorded = self.read_turn()
        ids = [ident_of(call) for call in calls_of(self._message())]
        return not recorded.server_calls(tools) and ids == [ident_of(c) for c in recorded.calls]

    def read_turn(self) -> RecordedChatTurn:
        """Read the message."""
        if self._recorded is None:
            new_id = partial(self._ids.make, self.answer.get("id"), self._turn)
            self._recorded = record_message(self._message(), new_id)
        return self._recorded

    def _message(self) -> Json:
        return part_of(first_choice(self.answer), "message")

    def _glance(self, body: bytes) -> TurnEnd:
        plain = _plain.decode(body)
        choice, tokens = plain.choices[0], plain.usage
        reason = choice.finish_reason
        stop = Stop.STOP if reason == "stop" else stop_of(reason)
        return TurnEnd(
            stop=stop,
            usage=tokens.usage() if tokens else None,
            spoke=bool(choice.message.content),
            continuable=self.choices == 1 and stop is not Stop.UNKNOWN,
        )

    def _judge_turn(self) -> TurnEnd:
        choice = first_choice(self.answer)
        stop, message = stop_of(choice.get("finish_reason")), part_of(choice, "message")
        if not any(map(message.get, BESIDE_TEXT)):
            return TurnEnd(
                stop=stop,
                usage=usage_of(self.usage),
                spoke=bool(message.get("content")),
                continuable=self.choices == 1 and stop is not Stop.UNKNOWN,
            )
        recorded, tools = self.read_turn(), self._tools
        if stop is Stop.STOP and recorded.refusal:
            stop = Stop.FILTER
        return TurnEnd(
            stop=stop,
            server_calls=recorded.server_calls(tools),
            client_calls=bool(recorded.client_calls(tools)) or recorded.legacy,
            usage=usage_of(self.usage),
            spoke=bool(recorded.text or recorded.calls or recorded.legacy),
            continuable=self.choices == 1 and stop is not Stop.UNKNOWN,
        )
