"""Requests, events and stories: the words the tests here are written in."""

from __future__ import annotations

import json
from typing import Any

import anyio

from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk

PATH = "/v1/chat/completions"
DONE = b"data: [DONE]\n\n"


def chat(
    text: str = "hello", *, stream: bool | None = True, model: str = "m", **more: Any
) -> bytes:
    """Write the body of a request with one user message."""
    messages = [{"role": "user", "content": text}]
    asked = {"model": model, "messages": messages, **more}
    return json.dumps(asked if stream is None else {**asked, "stream": stream}).encode()


def request(
    method: str, path: str, *headers: str, body: bytes = b"", host: str | None = "127.0.0.1"
) -> bytes:
    """Write any request."""
    lines = [f"{method} {path} HTTP/1.1", *([f"host: {host}"] if host else []), *headers]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def ask_of(body: bytes, *headers: str) -> bytes:
    """Write a request for a model's answer."""
    return request("POST", PATH, "content-type: application/json", *headers, body=body)


def get(path: str, *headers: str) -> bytes:
    """Write a GET."""
    return request("GET", path, *headers)


ROUTES = [PATH, "/", "/healthz", "/readyz", "/metrics", "/api/status", "/v1/models", "/nothing"]


def to(path: str, *headers: str, host: str | None = "127.0.0.1") -> bytes:
    """Write a request to any route."""
    if path == PATH:
        kind = "content-type: application/json"
        return request("POST", PATH, kind, *headers, body=chat(), host=host)
    return request("GET", path, *headers, host=host)


def event(delta: dict[str, Any], finish: str | None = None, ident: str = "a", **more: Any) -> bytes:
    """Write one chunk of a chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    envelope = {
        "id": ident,
        "object": "chat.completion.chunk",
        "created": 7,
        "model": f"real-{ident}",
    }
    return data({**envelope, "choices": [choice], **more})


def data(value: Any) -> bytes:
    """Write an event that holds JSON."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def text(words: str, ident: str = "a") -> bytes:
    """Write an event that says something."""
    return event({"content": words}, ident=ident)


def usage(prompt: int, completion: int, ident: str = "a") -> bytes:
    """Write the event that counts tokens."""
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
    return data({"id": ident, "choices": [], "usage": tokens})


def turn(words: str, ident: str = "a", finish: str = "stop", counted: bytes = b"") -> bytes:
    """Write a whole turn: role, text, finish, end."""
    role = event({"role": "assistant", "content": ""}, ident=ident)
    return role + text(words, ident) + event({}, finish, ident) + counted + DONE


def whole(words: str = "done", finish: str = "stop", **more: Any) -> bytes:
    """Write a whole answer that is not a stream."""
    message = {"role": "assistant", "content": words}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps(
        {"id": "a", "object": "chat.completion", "choices": [choice], **more}
    ).encode()


def streaming(*pieces: bytes) -> Story:
    """Answer every request with this stream, a packet and a chunk a piece."""

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED, *[chunk(piece) for piece in pieces], LAST)

    return story


def hanging(*pieces: bytes) -> Story:
    """Answer with these bytes, then stay silent until the gateway leaves."""

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        await peer.gone()

    return story


def in_turn(*stories: Story) -> Story:
    """Play another story to each request; connections are not kept alive between them."""
    left = list(stories)

    async def story(peer: Peer) -> None:
        await peer.asked()
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    return story


class Cue:
    """A sign from the test that its story waits for; signs given early are not lost."""

    def __init__(self) -> None:
        self._signs = anyio.Semaphore(0)

    def give(self) -> None:
        self._signs.release()

    async def wait(self) -> None:
        await self._signs.acquire()


def on_cue(cue: Cue, *pieces: bytes) -> Story:
    """Send a piece, wait for the sign, send the next."""

    async def story(peer: Peer) -> None:
        await peer.request()
        for piece in pieces:
            await peer.send(piece)
            await cue.wait()

    return story
