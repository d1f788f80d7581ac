"""The frames that the driver shows, read as what happened in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.dialects.events import Json, part_of, read_object
from gateway.dialects.openai_chat.calls import calls_of, function_of
from gateway.dialects.openai_chat.turn import first_choice, is_error
from gateway.wire.sse import data_of, split

NOTE = b": holdgate {"
THOUGHTS = ("reasoning_content", "reasoning")
WORDS = ("content", "refusal")
UPSTREAM_ERROR = "upstream_error"


@dataclass(frozen=True, slots=True)
class Thought:
    """The model thought this."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """The model said this."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model called a tool that is none of the gateway's."""

    name: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer broke off."""

    message: str
    code: str


@dataclass(frozen=True, slots=True)
class Noted:
    """The exchange came into another state."""

    state: str
    until_ms: int = 0
    why: str = ""


Shown = Thought | Said | Called | Failed | Noted


def read_frames(frames: bytes) -> Iterator[Shown]:
    """Yield what whole frames say, in order."""
    for frame in split(frames):
        if frame.startswith(NOTE):
            yield from _noted(frame)
        elif (data := data_of(frame)) is not None and (chunk := read_object(data)) is not None:
            yield from _read(chunk)


def _noted(frame: bytes) -> Iterator[Noted]:
    note = read_object(frame[len(NOTE) - 1 :].rstrip())
    if note is not None:
        until = note.get("until")
        until_ms = until if isinstance(until, int) else 0
        yield Noted(_text(note, "state"), until_ms, _text(note, "why"))


def _read(chunk: Json) -> Iterator[Shown]:
    if is_error(chunk):
        yield _failed(chunk["error"])
        return
    delta = part_of(first_choice(chunk), "delta")
    # Some say the same thought under both names.
    if thought := next((text for name in THOUGHTS if (text := _text(delta, name))), ""):
        yield Thought(thought)
    if said := "".join(_text(delta, name) for name in WORDS):
        yield Said(said)
    for call in calls_of(delta):
        if name := function_of(call).get("name"):
            yield Called(name)


def _failed(error: object) -> Failed:
    if not isinstance(error, dict):
        return Failed(f"The model failed: {error}", UPSTREAM_ERROR)
    code = error.get("code") or error.get("type")
    says = _text(error, "message") or "The model failed and did not say why."
    return Failed(says, str(code) if isinstance(code, str | int) else UPSTREAM_ERROR)


def _text(value: Json, name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
