"""What one Chat Completions turn said, read from its frames or its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.dialects.events import (
    NO_ARGUMENTS,
    Json,
    as_text,
    number_in,
    objects_in,
    part_of,
    read_event,
    read_events,
    text_in,
)
from gateway.dialects.openai_chat.calls import Calls, ChatCall, calls_of, function_of, ident_of
from gateway.dialects.splices import NewId
from gateway.dialects.statuses import status_of
from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.exchange.model import Stop, ToolCall, Usage

STOPS = {
    "stop": Stop.STOP,
    "length": Stop.LENGTH,
    "tool_calls": Stop.TOOL_CALLS,
    "function_call": Stop.TOOL_CALLS,
    "content_filter": Stop.FILTER,
    # What GLM calls it.
    "sensitive": Stop.FILTER,
}

# Some upstreams have a word for it that nothing has ended yet.
UNFINISHED = (None, "", "null", "false")


def read_disguised_error(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_event(body)
    if answer is None or not is_error(answer):
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    error = answer["error"]
    told = error if isinstance(error, dict) else {}
    return UpstreamAnswered(status_of(told.get("type"), told.get("code")), (), body)


def is_error(answer: Json) -> bool:
    """Whether this is an error and not an answer; some still put a choice beside it."""
    choice = first_choice(answer)
    return bool(answer.get("error")) and (not choice or choice.get("finish_reason") == "error")


def first_choice(answer: Json) -> Json:
    """Return the only choice that is looked at, or an empty one."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return {}


def split_finish(chunk: Json, choice: Json) -> tuple[Json, Json]:
    """Part the content that rides on a finish from the finish; each thing is told once."""
    shown = {name: value for name, value in chunk.items() if name != "usage"}
    likely = {"logprobs": None} if "logprobs" in choice else {}
    return (
        {**shown, "choices": [{**choice, "finish_reason": None}]},
        {**chunk, "choices": [{**choice, "delta": {}, **likely}]},
    )


def speaks(delta: Json) -> bool:
    """Whether a delta says anything beside who speaks."""
    return any(value not in (None, "", [], {}) for name, value in delta.items() if name != "role")


def finish_of(choice: Json) -> str | None:
    """Return the word for why a choice ended, if it has."""
    reason = as_text(choice.get("finish_reason"))
    return None if reason in UNFINISHED else reason


def stop_of(reason: object) -> Stop:
    """Translate a finish reason."""
    return STOPS.get(reason, Stop.UNKNOWN) if isinstance(reason, str) else Stop.UNKNOWN


def usage_of(usage: Json | None) -> Usage | None:
    """Translate a usage object."""
    if not usage:
        return None
    return Usage(number_in(usage, "prompt_tokens"), number_in(usage, "completion_tokens"))


def reasoning_in(content: object) -> str:
    """Return the reasoning that Mistral puts into the content, as parts beside the text."""
    return "".join(text_in(part.get("thinking")) for part in objects_in(content))


class FinishedChatTurn(msgspec.Struct, frozen=True, gc=False):
    """What the end of an answer takes of a turn that is part of it."""

    tail: bytes
    finish: str | None
    usage: Json | None
    hides_its_reason: bool


@dataclass(slots=True)
class RecordedChatTurn:
    """A turn's text and calls, put together from its parts; every call has its id."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Json] = field(default_factory=list)
    legacy: bool = False
    """Whether it called a function in the old form, which only clients answer."""

    def message(self) -> Json:
        """Build the assistant's message."""
        message: Json = {"role": "assistant", "content": self.text or None}
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = self.calls
        elif not self.text:
            message["content"] = ""
        return message

    def server_calls(self, tools: frozenset[str]) -> tuple[ToolCall, ...]:
        """Return the calls to our own tools."""
        return tuple(
            ToolCall(ident_of(call), function["name"], function.get("arguments") or NO_ARGUMENTS)
            for call in self.calls
            if (function := function_of(call)).get("name") in tools
        )

    def client_calls(self, tools: frozenset[str]) -> list[Json]:
        """Return the calls that the client sees."""
        return [call for call in self.calls if function_of(call).get("name") not in tools]

    def client_call_ids(self, tools: frozenset[str]) -> tuple[str, ...]:
        """Return the ids of those, by which the client's results will name them."""
        return tuple(ident for call in self.client_calls(tools) if (ident := ident_of(call)))


def record_deltas(deltas: Iterable[Json], calls: Calls) -> RecordedChatTurn:
    """Put a turn together from its streamed deltas."""
    parts: Mapping[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
    fragments: dict[ChatCall, list[Json]] = {}
    legacy = False
    for delta in deltas:
        for name, texts in parts.items():
            texts.append(text_in(delta.get(name)))
        parts["reasoning_content"].append(reasoning_in(delta.get("content")))
        for fragment in calls_of(delta):
            fragments.setdefault(calls.take(fragment), []).append(fragment)
        legacy = legacy or bool(delta.get("function_call"))
    text, reasoning, refusal = ("".join(parts[name]) for name in parts)
    whole = [_join_fragments(call, pieces) for call, pieces in fragments.items()]
    return RecordedChatTurn(text, reasoning, refusal, whole, legacy)


def _join_fragments(call: ChatCall, fragments: list[Json]) -> Json:
    """Put a call together; what upstreams add to it, such as signatures, they want back."""
    more = {name: value for fragment in fragments for name, value in fragment.items()}
    more.pop("index", None)
    arguments = "".join(function_of(f).get("arguments") or "" for f in fragments)
    function = {"name": call.name, "arguments": arguments or NO_ARGUMENTS}
    return {**more, "id": call.id, "type": "function", "function": function}


def record_message(message: Json, new_id: NewId) -> RecordedChatTurn:
    """Read a turn from its whole message."""

    def text(name: str) -> str:
        return text_in(message.get(name))

    calls = [_ensure_id(call, new_id, at) for at, call in enumerate(calls_of(message))]
    legacy = bool(message.get("function_call"))
    thought = text("reasoning_content") + reasoning_in(message.get("content"))
    return RecordedChatTurn(text("content"), thought, text("refusal"), calls, legacy)


def _ensure_id(call: Json, new_id: NewId, ordinal: int) -> Json:
    """Give a call its id as text; what names no function is no call that could be answered."""
    ident = ident_of(call)
    if not ident and function_of(call).get("name"):
        ident = new_id(ordinal)
    return {**call, "id": ident} if ident else call


def shows_content(frames: bytes) -> bool:
    """Tell whether any chunk says something, thinks, refuses or calls."""
    return any(
        _says(choice)
        for chunk in read_events(frames)
        for choice in objects_in(chunk.get("choices"))
    )


def _says(choice: Json) -> bool:
    return speaks(part_of(choice, "delta")) or speaks(part_of(choice, "message"))
