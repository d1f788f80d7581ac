"""What the three dialects of the demo upstream have in common: requests read, answers to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeVar

import msgspec

from gateway.demo.dialogue import Dialogue, DialogueMessage
from gateway.wire import sse

T = TypeVar("T")
Json = dict[str, Any]
encode_json = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class AnswerStamp:
    """What makes an answer different from all others: its number and its time."""

    number: int
    created: int


@dataclass(frozen=True, slots=True)
class DialogueRequest:
    """A request, read: the dialogue and how the answer is wanted."""

    dialogue: Dialogue
    model: str
    stream: bool = False
    choices: int = 1
    usage: bool = False

    @property
    def prompt_tokens(self) -> int:
        """The prompt's tokens, counted the simple way: words, and one for each message."""
        texts = (text for message in self.dialogue.messages for text in message.texts)
        return sum(1 + text.count(" ") for text in texts)


@dataclass(frozen=True, slots=True)
class CompleteAnswer:
    """A whole answer, for those who do not stream."""

    text: str
    calls: tuple[tuple[str, str], ...]
    pieces: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """An error: a status before the answer began, an error frame after it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    retry_after: int | None = None


class UnreadableRequest(Exception):
    """A request that cannot be read; the error says why."""

    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.fail = Fail(400, message, code, param)


class ReplyWriter(Protocol):
    """How one answer is written in a dialect: frame by frame, or as one document."""

    def begin(self, speaks: bool) -> bytes: ...

    def say(self, token: str) -> bytes: ...

    def call(self, name: str) -> bytes: ...

    def argue(self, piece: str) -> bytes: ...

    def fail(self, fail: Fail) -> bytes: ...

    def finish(self, reason: str, ends: int = 1) -> bytes: ...

    def write_whole(self, answer: CompleteAnswer) -> bytes: ...


class DialectModule(Protocol):
    """One wire language: how requests are read and answers written."""

    path: str

    def read(self, body: bytes) -> DialogueRequest: ...

    def open_answer(self, request: DialogueRequest, stamp: AnswerStamp) -> ReplyWriter: ...

    def write_error(self, fail: Fail) -> bytes: ...


def decode_request(kind: type[T], body: bytes, unreadable: str) -> T:
    """Read a request's body, or refuse it with a sentence that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise UnreadableRequest(f"{error}.", param=find_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableRequest(unreadable) from None


def find_field(problem: str) -> str | None:
    """Find the field a validation error speaks of."""
    if "at `$." in problem:
        return problem.rpartition("at `$.")[2].rstrip("`")
    if "required field `" in problem:
        return problem.partition("required field `")[2].partition("`")[0]
    return None


def find_texts(content: object) -> tuple[str, ...]:
    """Return the texts of a content that is one text or many parts."""
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return tuple(text for text in texts if text and isinstance(text, str))


def merge_turns(messages: Iterable[DialogueMessage]) -> Iterator[DialogueMessage]:
    """Make one message of those that the model said in a row."""
    for role, group in groupby(messages, key=lambda message: message.role):
        if role != "assistant":
            yield from group
            continue
        turns = tuple(group)
        texts = tuple(text for turn in turns for text in turn.texts)
        yield DialogueMessage(role, texts, tuple(call for turn in turns for call in turn.calls))


def write_event(event: Json) -> bytes:
    """Write an event as a frame under its name."""
    return sse.encode(encode_json(event), event["type"])
