"""What a model says in Chat Completions frames, and what its upstream says of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.dialects.events import Json, part_of, read_object
from gateway.dialects.openai_chat.turn import calls_of, first_choice, function_of, is_error
from gateway.errors import HoldgateError, UpstreamAnswered
from gateway.wire.sse import data_of, split

THOUGHTS = ("reasoning_content", "reasoning")
UPSTREAM_ERROR = "upstream_error"
WORDS = ("content", "refusal")


@dataclass(frozen=True, slots=True)
class ReasoningShown:
    """The model thought this."""

    text: str


@dataclass(frozen=True, slots=True)
class TextShown:
    """The model said this."""

    text: str


@dataclass(frozen=True, slots=True)
class ForeignCallShown:
    """The model called a tool that is none of the gateway's."""

    name: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The answer broke off."""

    message: str
    code: str


Shown = ReasoningShown | TextShown | ForeignCallShown


def read_frames(frames: bytes) -> Iterator[Shown]:
    """Yield what whole frames say, in order."""
    for frame in split(frames):
        if (data := data_of(frame)) is not None and (chunk := read_object(data)) is not None:
            yield from _read(chunk)


def _read(chunk: Json) -> Iterator[Shown]:
    if is_error(chunk):
        # How an exchange fails is told to its observer.
        return
    delta = part_of(first_choice(chunk), "delta")
    # Some say the same thought under both names.
    if thought := next((text for name in THOUGHTS if (text := _text(delta, name))), ""):
        yield ReasoningShown(thought)
    if text := "".join(_text(delta, name) for name in WORDS):
        yield TextShown(text)
    for call in calls_of(delta):
        if name := function_of(call).get("name"):
            yield ForeignCallShown(name)


def read_failure(error: HoldgateError) -> Failure:
    """Say what went wrong: in the upstream's own words, if it has any."""
    answer = read_object(error.body) if isinstance(error, UpstreamAnswered) else None
    if answer is None or not is_error(answer):
        return Failure(error.message, error.code)
    error_body = answer["error"]
    if not isinstance(error_body, dict):
        return Failure(f"The model failed: {error_body}", UPSTREAM_ERROR)
    code = error_body.get("code") or error_body.get("type")
    message = _text(error_body, "message") or "The model failed and did not say why."
    return Failure(message, str(code) if isinstance(code, str | int) else UPSTREAM_ERROR)


def _text(value: Json, name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
