"""Chat Completions: how an ask is put, and what the chunks of its answer come to."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from .reading import Ask, Call, Failure, Reading, Tokens

PATH = "/v1/chat/completions"
DONE = "[DONE]"


class Function(msgspec.Struct):
    """A function's name and arguments, or a piece of them."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    """A tool call, or a piece of one."""

    function: Function
    index: int = 0


class Message(msgspec.Struct):
    """A message, or a piece of one."""

    role: str | None = None
    content: str | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether it is as empty as a heartbeat."""
        return self.role is None and self.content is None and not self.tool_calls


class Choice(msgspec.Struct):
    """The one choice of a chunk, or of a whole answer."""

    delta: Message = msgspec.field(default_factory=Message)
    message: Message = msgspec.field(default_factory=Message)
    finish_reason: str | None = None


class Usage(msgspec.Struct):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Answer(msgspec.Struct):
    """A chunk, or a whole answer."""

    id: str
    choices: list[Choice]
    usage: Usage | None = None


# Threads that are the first to read a type, several at once, crash the process.
msgspec.json.Decoder(Answer)


def body_of(ask: Ask) -> dict[str, Any]:
    """Write an ask as a request's body, which is also what the SDKs take as arguments."""
    body: dict[str, Any] = {
        "model": ask.model,
        "messages": [{"role": "user", "content": ask.prompt}],
        "stream": ask.stream,
    }
    if ask.usage and ask.stream:
        body["stream_options"] = {"include_usage": True}
    if ask.tools:
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in ask.tools]
    if ask.session:
        body["metadata"] = {"session_id": ask.session}
    return body


class Notes:
    """Takes down what a client shows of one answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._said = Message(role="", content="")
        self._calls: dict[int, ToolCall] = {}
        self._finishes: list[str] = []
        self._ids: list[str] = []
        self._arrivals: list[float] = []
        self._beats = 0
        self._end_marks = 0
        self._usage: Usage | None = None
        self._whole: Answer | None = None
        self._failure: Failure | None = None

    @property
    def enough(self) -> bool:
        """Whether it is time to leave."""
        wanted = self._ask.leave_after
        return wanted is not None and len(self._arrivals) >= wanted

    def chunk(self, data: object, at: float | None = None) -> None:
        """Note a chunk."""
        chunk = msgspec.convert(data, Answer)
        self._ids.append(chunk.id)
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices:
            self._delta(choice.delta, time.monotonic() if at is None else at)
            self._finishes += [choice.finish_reason] if choice.finish_reason else []
            self._beats += choice.delta.says_nothing and not choice.finish_reason

    def whole(self, data: object) -> None:
        """Note an answer of one piece: not streamed, or put together by the client."""
        self._whole = msgspec.convert(data, Answer)
        self._ids.append(self._whole.id)

    def event(self, data: str, at: float | None = None) -> None:
        """Note the data of one event, for clients that do not know the dialect."""
        if data == DONE:
            self._end_marks += 1
            return
        read = msgspec.json.decode(data)
        if "error" in read:
            self.failed(Failure(read["error"]["message"]))
        else:
            self.chunk(read, at)

    def refused(self, status: int, body: bytes) -> None:
        """Note an answer with an error status, for the same clients."""
        self.failed(Failure(msgspec.json.decode(body)["error"]["message"], status))

    def failed(self, failure: Failure) -> None:
        """Note what came instead of an answer, or of its end."""
        self._failure = failure

    def reading(self) -> Reading:
        """Say what it all came to; what the client put together itself counts most."""
        message, finishes, usage = self._said, tuple(self._finishes), self._usage
        message.tool_calls = [self._calls[index] for index in range(len(self._calls))]
        if self._whole is not None:
            choice, usage = self._whole.choices[0], self._whole.usage
            message, finishes = choice.message, finishes or (choice.finish_reason or "",)
        return Reading(
            text=message.content or "",
            role=message.role or "",
            finishes=finishes,
            calls=tuple(_call(call) for call in message.tool_calls or ()),
            tokens=_tokens(usage),
            ids=tuple(dict.fromkeys(self._ids)),
            arrivals=tuple(self._arrivals),
            beats=self._beats,
            end_marks=self._end_marks,
            failure=self._failure,
        )

    def _delta(self, delta: Message, at: float) -> None:
        self._said.role = (self._said.role or "") + (delta.role or "")
        if delta.content:
            self._said.content = (self._said.content or "") + delta.content
            self._arrivals.append(at)
        for piece in delta.tool_calls or ():
            self._piece(piece)

    def _piece(self, piece: ToolCall) -> None:
        known = self._calls.setdefault(piece.index, ToolCall(Function("", ""))).function
        known.name = (known.name or "") + (piece.function.name or "")
        known.arguments = (known.arguments or "") + (piece.function.arguments or "")


def _call(call: ToolCall) -> Call:
    return Call(call.function.name or "", call.function.arguments or "")


def _tokens(usage: Usage | None) -> Tokens | None:
    if usage is None:
        return None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return Tokens(usage.prompt_tokens, usage.completion_tokens)
