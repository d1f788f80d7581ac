"""What is asked and answered, in no dialect's words; and how a stream is cut into events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]

ERROR_MARK = "[tool error] "
MODEL = "real-m"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool returned."""

    id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: an address, or bytes in base64."""

    url: str = ""
    media_type: str = ""
    data: str = ""

    @property
    def address(self) -> str:
        """Return where it is, or all of it as an address."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


def image_at(address: str) -> Image:
    """Read an address, which may hold all of the picture."""
    if not address.startswith("data:"):
        return Image(address)
    media_type, _, data = address.removeprefix("data:").partition(";base64,")
    return Image(media_type=media_type, data=data)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said in a row: results first, then images, text and calls."""

    role: str
    text: str = ""
    images: tuple[Image, ...] = ()
    results: tuple[Result, ...] = ()
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request."""

    turns: tuple[Turn, ...] = (Turn("user", "Hello!"),)
    system: str = ""
    tools: tuple[str, ...] = ()
    choice: str = ""
    """`auto`, `none`, `required`, or the name of a tool."""
    max_tokens: int = 100
    temperature: float | None = None
    model: str = "m"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an answer cost."""

    input: int = 20
    output: int = 7
    cached: int = 4
    reasoning: int = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    text: str = ""
    thought: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = "stop"
    """`stop`, `length`, `tools`, or `filter`, which is also the stop of a refusal."""
    tokens: Tokens | None = Tokens()
    model: str = MODEL


class Tongue(Protocol):
    """A dialect as both ends of the wire speak it, written for these tests alone."""

    @property
    def NAME(self) -> str: ...
    @property
    def PATH(self) -> str: ...

    def ask(self, ask: Ask, stream: bool, **more: Any) -> bytes:
        """Write a request as a client does."""

    def asked(self, body: bytes) -> Ask:
        """Read a request as an upstream does, and insist that it is one."""

    def stream(self, answer: Answer) -> list[bytes]:
        """Write a stream as an upstream does; pieces of several calls are mixed."""

    def whole(self, answer: Answer) -> bytes:
        """Write an answer of one piece."""

    def broken(self, text: str, message: str) -> list[bytes]:
        """Write a stream that says something, then reports an error."""

    def error(self, message: str) -> bytes:
        """Write the body of an answer with an error status."""

    def read_stream(self, body: bytes) -> Answer:
        """Read a stream as the strictest client does."""

    def read_whole(self, body: bytes) -> Answer:
        """Read an answer of one piece."""

    def read_broken(self, body: bytes) -> tuple[str, str]:
        """Read a stream that ends in an error: what was said, and what went wrong."""

    def read_error(self, body: bytes) -> str:
        """Read what the body of an error answer says."""


def events(body: bytes) -> list[tuple[str, Any]]:
    """Cut a stream into events: the name of each, and its JSON, or its text if it has none."""
    told = []
    for frame in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in frame.split("\n")]
        fields = {name: value.removeprefix(" ") for name, _, value in lines if name}
        if "data" in fields:
            data = fields["data"]
            told.append((fields.get("event", ""), json.loads(data) if data[0] == "{" else data))
    return told


def result_of(ident: str, text: str, flagged: bool = False) -> Result:
    """Read a result; where there is no flag for it, an error is marked in words."""
    is_error = flagged or text.startswith(ERROR_MARK)
    return Result(ident, text.removeprefix(ERROR_MARK), is_error)


def result_text(result: Result) -> str:
    """Write a result where there is no flag for errors."""
    return (ERROR_MARK if result.is_error else "") + result.text


def joined(turns: list[Turn]) -> tuple[Turn, ...]:
    """Make one turn of all that one side said in a row."""
    told: list[Turn] = []
    for turn in turns:
        if told and told[-1].role == turn.role:
            last = told.pop()
            turn = Turn(
                turn.role,
                last.text + turn.text,
                last.images + turn.images,
                last.results + turn.results,
                last.calls + turn.calls,
            )
        told.append(turn)
    return tuple(told)


def halves(text: str) -> tuple[str, str]:
    """Cut a text in two."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def packed(value: Any) -> bytes:
    """Write JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
