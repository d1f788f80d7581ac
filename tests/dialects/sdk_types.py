"""An oracle that is not ours: whether a body is what a vendor's SDK says a request is."""

import collections.abc
import types
import typing
from functools import cache
from typing import Any, Literal, Union

import typing_extensions
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

REQUESTS = {
    "openai-chat": (CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming),
    "openai-responses": (ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming),
    "anthropic-messages": (MessageCreateParamsNonStreaming, MessageCreateParamsStreaming),
}
WIDER: dict[Any, Any] = {float: (int, float), Any: object}


def misfits(dialect: str, request: dict[str, Any]) -> list[str]:
    """Return where a request is not what the SDK of its dialect would send."""
    return _judge(request, REQUESTS[dialect][bool(request.get("stream"))], "$")


def _judge(value: Any, kind: Any, path: str) -> list[str]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _judge(value, inner[0], path)
    if origin in (Union, types.UnionType):
        verdicts = [_judge(value, option, path) for option in inner]
        return min(verdicts, key=_depth_first)
    if origin is Literal:
        return [] if value in inner else [f"{path}: {value!r} is none of {inner}"]
    if typing_extensions.is_typeddict(kind):
        return _judge_members(value, kind, path)
    if (
        origin in (collections.abc.Iterable, list)
        or getattr(origin, "__name__", "") == "SequenceNotStr"
    ):
        if not isinstance(value, list):
            return [f"{path}: not a list"]
        return [m for at, item in enumerate(value) for m in _judge(item, inner[0], f"{path}[{at}]")]
    expected = WIDER.get(kind, origin or kind)
    return [] if isinstance(value, expected) else [f"{path}: {value!r} is no {kind}"]


def _depth_first(verdict: list[str]) -> tuple[int, int]:
    """Prefer the option that fits, then the one that fails deepest inside, then for the least."""
    depths = (one.split(":")[0].count(".") for one in verdict)
    return -max(depths, default=99), len(verdict)


def _judge_members(value: Any, kind: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: not an object"]
    members, required = _shape(kind)
    found = [f"{path}.{name}: missing" for name in required - value.keys()]
    for name, item in value.items():
        if name not in members:
            found.append(f"{path}.{name}: not a member of {kind.__name__}")
        else:
            found += _judge(item, members[name], f"{path}.{name}")
    return found


@cache
def _shape(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    return typing_extensions.get_type_hints(kind), frozenset(kind.__required_keys__)
