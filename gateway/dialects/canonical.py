"""The one form that requests and answers of every dialect can be put into.

It is small on purpose: what it cannot carry is left out and named (`Losses`), and what would change
the meaning of a request is refused. Requests are values; answers are streams of events, whether
they come as frames or as one body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.exchange.model import Stop


class Text(msgspec.Struct, frozen=True, gc=False):
    """Something said."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False):
    """Something thought. What proves it is only of use to the dialect that made it."""

    text: str = ""
    signature: str = ""
    """Messages: the thinking block's signature."""
    encrypted: str = ""
    """Responses: the item's encrypted content; messages: redacted thinking."""
    id: str = ""
    redacted: bool = False
    """Whether `encrypted` is the redacted thinking of messages."""


class Image(msgspec.Struct, frozen=True, gc=False):
    """A picture: an address, or its bytes in base64."""

    url: str = ""
    media_type: str = ""
    data: str = ""
    detail: str = ""


class File(msgspec.Struct, frozen=True, gc=False):
    """A document: an address, its bytes in base64, plain text, or an id the upstream knows."""

    name: str = ""
    url: str = ""
    media_type: str = ""
    data: str = ""
    text: str = ""
    id: str = ""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call of a tool; the arguments are text and may be broken JSON."""

    id: str
    name: str
    arguments: str = "{}"
    custom: bool = False
    """Whether the tool takes plain text instead of JSON."""
    signature: str = ""
    """Requests: what proves the thought that led to it, if the gateway remembers it."""


class Result(msgspec.Struct, frozen=True, gc=False):
    """What a tool returned."""

    call_id: str
    parts: tuple[Text | Image | File, ...] = ()
    is_error: bool = False


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A refusal to answer, in the model's words."""

    text: str


Part = Text | Reasoning | Image | File | Call | Result | Refusal


class Message(msgspec.Struct, frozen=True, gc=False):
    """What one side said: `user`, `assistant`, or `system` in the middle of a conversation."""

    role: str
    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True, gc=False):
    """A function the model may call; `custom` ones take plain text."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The parameters' JSON schema; of a custom tool, the syntax and definition of its grammar."""
    strict: bool | None = None
    custom: bool = False


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Which tool is to be called: `auto`, `none`, `required`, or `tool` with a name."""

    kind: str = "auto"
    name: str = ""


class Conversation(msgspec.Struct, frozen=True, gc=False):
    """A request, without the words of any dialect."""

    model: str
    stream: bool = False
    system: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    choice: Choice | None = None
    parallel: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    effort: str = ""
    """How much to think: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.

    Empty for the upstream's own.
    """
    format: Mapping[str, Any] | None = None
    """A JSON schema the answer has to follow: name, schema, strict; empty for any JSON object."""
    user: str = ""
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    wants_usage: bool = False
    lost: tuple[str, ...] = ()
    """Names of members that have no counterpart and were left out."""


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """What a turn used."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Part of the input that was read from a cache."""
    written: int = 0
    """Part of the input that was written to a cache."""
    reasoning: int = 0
    """Part of the output that was thought."""


class Began(msgspec.Struct, frozen=True, gc=False):
    """An answer began."""

    id: str
    model: str
    created: int = 0
    tokens: Tokens | None = None


class CallBegan(msgspec.Struct, frozen=True, gc=False):
    """A call began; pieces of several calls may be mixed, told apart by their number."""

    number: int
    id: str
    name: str
    custom: bool = False


class CallWent(msgspec.Struct, frozen=True, gc=False):
    """A piece of a call's arguments."""

    number: int
    arguments: str


class CallEnded(msgspec.Struct, frozen=True, gc=False):
    """A call is whole: nothing more comes of it. Every call ends before its answer does."""

    number: int


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An answer ended as it should."""

    stop: Stop
    tokens: Tokens | None = None
    sequence: str = ""
    """The stop sequence that ended it, if one did and it is known."""
    word: str = ""
    """The upstream's own word for an end that no other dialect has one for."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """An answer broke off, in the upstream's words."""

    message: str
    kind: str = ""
    code: str = ""
    status: int = 502


# Texts, reasoning and refusals may come in pieces; what proves a thought comes with its end.
Event = Began | Text | Reasoning | Refusal | CallBegan | CallWent | CallEnded | Ended | Failed
