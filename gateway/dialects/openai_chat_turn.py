"""What one Chat Completions turn said, read from its frames or its body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.core.model import Stop, ToolCall, Usage
from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError

Json = dict[str, Any]

STOPS = {
    "stop": Stop.STOP,
    "length": Stop.LENGTH,
    "tool_calls": Stop.TOOL_CALLS,
    "function_call": Stop.TOOL_CALLS,
    "content_filter": Stop.FILTER,
}

_decode = msgspec.json.Decoder(Json).decode


def read_object(data: bytes) -> Json | None:
    """Parse a JSON object, or return None when it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def said(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_object(body)
    if answer is None or not is_error(answer):
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    error = answer["error"]
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 502
    return UpstreamAnswered(status, (), body)


def is_error(answer: Json) -> bool:
    """Whether this is an error and not an answer."""
    return bool(answer.get("error")) and not answer.get("choices")


def first_choice(answer: Json) -> Json:
    """Return the only choice that is looked at, or an empty one."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return {}


def part_of(choice: Json, name: str) -> Json:
    """Return a choice's `delta` or `message`, or an empty one."""
    part = choice.get(name)
    return part if isinstance(part, dict) else {}


def calls_of(part: Json) -> list[Json]:
    """Return the tool calls, or their fragments, of a delta or a message."""
    calls = part.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def function_of(call: Json) -> Json:
    """Return what a call calls: its name and arguments, both as text whatever they were."""
    function = call.get("function")
    if not isinstance(function, dict):
        return {}
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(name, str | None) and isinstance(arguments, str | None):
        return function
    return {**function, "name": _as_text(name), "arguments": _as_text(arguments)}


def index_of(fragment: Json, default: int) -> int:
    """Return which call a fragment belongs to."""
    index = fragment.get("index")
    return index if isinstance(index, int) else default


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def stop_of(reason: object) -> Stop:
    """Translate a finish reason."""
    return STOPS.get(reason, Stop.UNKNOWN) if isinstance(reason, str) else Stop.UNKNOWN


def usage_of(usage: Json | None) -> Usage | None:
    """Translate a usage object."""
    if not usage:
        return None
    return Usage(_number(usage, "prompt_tokens"), _number(usage, "completion_tokens"))


def _number(usage: Json, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0


def summed(usages: Iterable[Json | None]) -> Json | None:
    """Add usage objects up, number by number; other values are the last turn's."""
    total: Json | None = None
    for usage in usages:
        if usage:
            total = usage if total is None else _sum(total, usage)
    return total


def _sum(one: Json, other: Json) -> Json:
    total = {**one, **{name: value for name, value in other.items() if value is not None}}
    for name in one.keys() & other.keys():
        mine, theirs = one[name], other[name]
        if isinstance(mine, dict) and isinstance(theirs, dict):
            total[name] = _sum(mine, theirs)
        elif isinstance(mine, int | float) and isinstance(theirs, int | float):
            total[name] = mine + theirs
    return total


@dataclass(slots=True)
class Call:
    """One tool call, put together from its fragments."""

    id: str
    name: str
    server: bool
    shown_as: int = 0
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> ToolCall:
        """Return the call as a value."""
        return ToolCall(self.id, self.name, "".join(self.arguments))


@dataclass(slots=True)
class Recorded:
    """A turn's text and calls, put together from its parts."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Json] = field(default_factory=list)

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


def record_deltas(deltas: Iterable[Json]) -> Recorded:
    """Put a turn together from its streamed deltas."""
    parts: Mapping[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
    calls: dict[object, Json] = {}
    for delta in deltas:
        for name, texts in parts.items():
            if isinstance(text := delta.get(name), str):
                texts.append(text)
        for fragment in calls_of(delta):
            _gather(calls, fragment)
    text, reasoning, refusal = ("".join(parts[name]) for name in parts)
    return Recorded(text, reasoning, refusal, list(calls.values()))


def _gather(calls: dict[object, Json], fragment: Json) -> None:
    index = index_of(fragment, len(calls))
    function = function_of(fragment)
    call = calls.setdefault(
        index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    )
    call["id"] = _as_text(fragment.get("id")) or call["id"]
    call["function"]["name"] += function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def record_message(message: Json) -> Recorded:
    """Read a turn from its whole message."""

    def text(name: str) -> str:
        value = message.get(name)
        return value if isinstance(value, str) else ""

    return Recorded(text("content"), text("reasoning_content"), text("refusal"), calls_of(message))
