"""The values an exchange is made of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from gateway.errors import Headers


class Route(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a model name leads: an upstream, and the name it knows the model by."""

    upstream: str
    model: str

    def __str__(self) -> str:
        return f"{self.upstream}/{self.model}"


class RequestSource(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a request comes from: the path that a client asked, or a run of a job without one."""

    path: str = ""
    trace_context: Headers = ()
    """The client's `traceparent` and `tracestate`, if it sent them."""
    agent_id: str = ""
    job_id: str = ""
    run_id: str = ""


JOB_RUN = RequestSource()


class Stop(StrEnum):
    """Why a turn ended, in no dialect's words."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    FILTER = "content_filter"
    UNKNOWN = "unknown"


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call the model made; the arguments are text, and may be broken JSON."""

    id: str
    name: str
    arguments: str


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one turn, as the upstream reported them."""

    input: int = 0
    """All of the prompt, cached or not."""
    output: int = 0
    """All of the answer, reasoning included."""
    cached: int = 0
    """The part of the input that was read from the upstream's cache."""
    reasoning: int = 0
    """The part of the output that the model thought."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


class ExchangeInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which exchange it is, and whose: what log lines, metrics and usage are told by."""

    exchange_id: str
    """Ours, and never used again."""
    request_id: str
    """The client's own id, if it named one; else the same as ours."""
    owner: str = ""
    session: str | None = None
    model: str = ""
    """As the client called it."""
    dialect: str = ""
    """The client's; of a request that is passed through, its path."""
    stream: bool = False


class TurnEnd(msgspec.Struct, frozen=True, gc=False):
    """What a turn came to, once its terminal frame is in."""

    stop: Stop
    server_calls: tuple[ToolCall, ...] = ()
    client_calls: bool = False
    usage: Usage | None = None
    spoke: bool = True
    """Whether it said or called anything at all."""
    continuable: bool = True
    """False when no follow-up can be joined on: the tape overran, or the end was already shown."""


class Mark(StrEnum):
    """What the beginning of a request's text says of it."""

    COMPACTION = "compaction"
    """The conversation is to be summed up."""
    SIDE_CALL = "side_call"
    """An agent wants a title or the like, if it offers no tools."""


class RequestFacts(msgspec.Struct, frozen=True, gc=False):
    """What a session asks of a request, read once where the request is large."""

    system: str
    """A digest of the texts that instruct the model."""
    mark: Mark | None
    """What the beginning of its text says of it."""
    calls: tuple[str, ...]
    """The first call's id of each of the last turns that called tools, if no session is named."""


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """A client's request for a model's answer: what the gateway needs to know of it."""

    model: str
    body: bytes
    stream: bool = False
    choices: int = 1
    wants_usage: bool = False
    stream_implied: bool = False
    """Whether the body does not say that it wants the stream."""
    tools: bytes = b""
    """The tools the client offers, as JSON; empty when it offers none."""
    takes_tools: bool = True
    """Whether a tool of ours may be added: one answer of free text is wanted, no tool is forced."""
    structured: bool = False
    """Whether the answer has to have a form, such as a JSON schema's: then nothing may be added."""
    forces_one: bool = False
    """Whether the answer can only be a call of one tool: nothing could be said of a reminder."""
    last_role: str = "user"
    """Who speaks in the last message: `user`, `tool`, `assistant`, or a name of the dialect's."""
    directives: bool = False
    """Whether a user's text may hold a directive."""
    identity: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    """The members that may name a session, as JSON."""
    facts: RequestFacts | None = None
    """Of a large request, what else is asked of it; others are looked at when it is asked."""
    history_end: int = 0
    """Where the list of its messages ends in the body, if a first turn's additions can be put in
    there and at the end, without reading it again; else 0."""

    def with_body(self, body: bytes) -> ModelRequest:
        """Return the same request with another body."""
        return msgspec.structs.replace(self, body=body, history_end=0)
