"""Who is talked to in a terminal: a model, whose conversation is kept here, or an agent."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from gateway.cli.client import CommandFailed, decode, reason
from gateway.cli.screen import Note
from gateway.errors import UpstreamBroke
from gateway.wire.sse import Framer, data_of

T = TypeVar("T")
Message = dict[str, str]

NOTE = b": holdgate "
BROKEN, UNREADABLE = "the answer broke off.", "the answer cannot be read."


class _AnswerDelta(msgspec.Struct):
    content: str | None = None


class _AnswerChoice(msgspec.Struct):
    delta: _AnswerDelta | None = None


class _Failure(msgspec.Struct):
    message: str = BROKEN


class _AnswerChunk(msgspec.Struct):
    choices: tuple[_AnswerChoice, ...] = ()
    error: _Failure | str | None = None


class _AgentEvent(msgspec.Struct):
    delta: str = ""
    until: int | None = None
    message: str = BROKEN


class _Listed(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: tuple[_Listed, ...]


class _Agents(msgspec.Struct):
    agents: tuple[_Listed, ...]


_chunk = msgspec.json.Decoder(_AnswerChunk)
_agent_event = msgspec.json.Decoder(_AgentEvent)
_note = msgspec.json.Decoder(Note)


class Partner(Protocol):
    """Somebody who answers."""

    name: str

    def answer(self, text: str) -> Generator[str | Note]:
        """Yield the answer's text as it comes, and the notes between."""
        ...

    def remember(self, text: str, said: str) -> None:
        """Take what was asked and answered into the conversation."""
        ...


class ModelPartner:
    """A model; it is told the whole conversation each time."""

    def __init__(self, client: httpx.Client, session: str, model: str) -> None:
        self._client = client
        self._headers = {b"x-session-id": session.encode(), b"x-holdgate-notes": b"1"}
        self._said: list[Message] = []
        self.name = model or self._first_model()
        if model:
            self.choose(model)

    def models(self) -> list[str]:
        """Return the models that are listed."""
        return [model.id for model in _get(self._client, "/v1/models", _Models).data]

    def choose(self, model: str) -> None:
        """Talk to another model from now on; an unknown one is refused."""
        answer = self._client.get(f"/v1/models/{quote(model, safe='')}")
        if answer.status_code != 200:
            raise CommandFailed(reason(answer))
        self.name = model

    def answer(self, text: str) -> Generator[str | Note]:
        """Yield the answer's text as it comes, and the notes between."""
        messages = [*self._said, {"role": "user", "content": text}]
        body = {"model": self.name, "stream": True, "messages": messages}
        with _open_frames(self._client, "/v1/chat/completions", body, self._headers) as frames:
            for frame in frames:
                if frame.startswith(NOTE):
                    yield _read_note(frame)
                else:
                    yield _read_text(data_of(frame))

    def remember(self, text: str, said: str) -> None:
        """Take what was asked and answered into the conversation."""
        self._said += [{"role": "user", "content": text}, {"role": "assistant", "content": said}]

    def _first_model(self) -> str:
        models = self.models()
        if not models:
            raise CommandFailed("no model is listed; name one with --model.")
        return models[0]


class AgentPartner:
    """An agent; the gateway keeps its conversation."""

    def __init__(self, client: httpx.Client, session: str, agent: str) -> None:
        known = [one.id for one in _get(client, "/api/agents", _Agents).agents]
        if agent not in known:
            there = f"there are {', '.join(known)}" if known else "none is configured"
            raise CommandFailed(f"there is no agent {agent!r}; {there}.")
        self.name = agent
        self._client = client
        self._session = session

    def answer(self, text: str) -> Generator[str | Note]:
        """Yield the answer's text as it comes, and the notes between."""
        body = {"agentId": self.name, "sessionId": self._session, "message": text}
        with _open_frames(self._client, "/api/chat", body, {}) as frames:
            for frame in frames:
                yield from _read_agent_event(frame)

    def remember(self, text: str, said: str) -> None:
        """Nothing is to be done: the gateway has kept it."""


def _get(client: httpx.Client, path: str, kind: type[T]) -> T:
    answer = client.get(path)
    if answer.status_code != 200:
        raise CommandFailed(reason(answer))
    return decode(answer.content, kind, str(client.base_url))


@contextmanager
def _open_frames(
    client: httpx.Client, path: str, body: Mapping[str, object], headers: Mapping[bytes, bytes]
) -> Iterator[Iterator[bytes]]:
    with client.stream("POST", path, json=dict(body), headers=dict(headers)) as answer:
        if answer.status_code != 200:
            answer.read()
            raise CommandFailed(reason(answer))
        yield _frames(answer)


def _frames(answer: httpx.Response) -> Iterator[bytes]:
    framer = Framer()
    try:
        for data in answer.iter_bytes():
            yield from framer.feed(data)
    except httpx.TransportError:
        raise CommandFailed(BROKEN) from None
    except UpstreamBroke as broke:
        raise CommandFailed(broke.message) from None


def _read_note(frame: bytes) -> Note:
    try:
        return _note.decode(frame[len(NOTE) :])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Note()


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CommandFailed(UNREADABLE) from None


def _read_text(data: bytes | None) -> str:
    if data is None or data == b"[DONE]":
        return ""
    chunk = _decode(_chunk, data)
    if chunk.error is not None:
        raise CommandFailed(chunk.error if isinstance(chunk.error, str) else chunk.error.message)
    return "".join(one.delta.content or "" for one in chunk.choices if one.delta)


def _read_agent_event(frame: bytes) -> Iterator[str | Note]:
    data = data_of(frame)
    if data is None:
        return
    event = _decode(_agent_event, data)
    name = frame.partition(b"\n")[0].removeprefix(b"event:").strip()
    if name == b"error":
        raise CommandFailed(event.message)
    if name == b"text":
        yield event.delta
    elif name == b"hold" and event.until is not None:
        yield Note("holding", event.until, round(time.time() * 1000))
