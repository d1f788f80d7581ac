"""Gateways between a client of one dialect and upstreams of others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests import run
from tests.gateway.client import Answer as Sent
from tests.gateway.wire import request
from tests.wire.fake import (
    CHUNKED,
    LAST,
    Peer,
    Story,
    answering,
    chunk,
    fake_upstream,
    sized,
)

from . import chat, messages, responses
from .neutral import MODEL, Answer, Ask, Tongue

CHAT: Tongue = chat
RESPONSES: Tongue = responses
MESSAGES: Tongue = messages
TONGUES: tuple[Tongue, ...] = (CHAT, RESPONSES, MESSAGES)
PAIRS = [(client, upstream) for client in TONGUES for upstream in TONGUES]
ACROSS = [(client, upstream) for client, upstream in PAIRS if client is not upstream]
JSON = "content-type: application/json"


def _named(value: object) -> str:
    return str(getattr(value, "NAME", value)).rpartition("-")[2]


each_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=_named)
across = pytest.mark.parametrize("client, upstream", ACROSS, ids=_named)
each_tongue = pytest.mark.parametrize("tongue", TONGUES, ids=_named)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


class Gate:
    """A gateway whose model `m` is called something else by all its upstreams."""

    def __init__(self, running: run.Running) -> None:
        self.running = running

    async def send(self, client: Tongue, body: bytes, *headers: str) -> Sent:
        """Ask with any body and read the answer to its end."""
        return await self.running.fetch(request("POST", client.PATH, JSON, *headers, body=body))

    async def ask(self, client: Tongue, ask: Ask, stream: bool) -> Sent:
        """Ask, and read the answer to its end."""
        return await self.send(client, client.ask(ask, stream))

    @property
    def told(self) -> bytes:
        """The body of the last request that reached an upstream."""
        return self.running.requests[-1].body

    async def lost(self) -> list[str]:
        """Return what the log says was left out of the last request."""
        await self.running.quiet()
        return self.running.exchanges[-1]["lost"] or []


@asynccontextmanager
async def gate(
    *upstreams: tuple[Tongue, Story],
    upstream: Mapping[str, Any] | None = None,
    models: list[dict[str, Any]] | None = None,
    **settings: Any,
) -> AsyncIterator[Gate]:
    """Run a gateway whose model `m`, unless others are given, leads to these upstreams.

    `upstream` holds keys of all upstreams.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(run.plain_failures())
        fakes = [await stack.enter_async_context(fake_upstream(story)) for _, story in upstreams]
        ids = "abc"[: len(fakes)]
        sections = [
            {
                "id": name,
                "base_url": f"http://127.0.0.1:{fake.port}/v1",
                "dialect": tongue.NAME,
                **(upstream or {}),
            }
            for name, fake, (tongue, _) in zip(ids, fakes, upstreams, strict=True)
        ]
        if models is None:
            models = [{"name": "m", "routes": [f"{name}/{MODEL}" for name in ids]}]
        tables = {"upstreams": sections, "models": models}
        running = await stack.enter_async_context(run.in_process(tables=tables, **settings))
        running.fakes += fakes
        yield Gate(running)


def telling(tongue: Tongue, answer: Answer, stream: bool) -> Story:
    """Have an upstream answer every request like this."""
    return answering(*_pieces(tongue, answer, stream))


def telling_all(tongue: Tongue, answers: Iterable[Answer], stream: bool) -> Story:
    """Have an upstream give these answers, one after the other."""
    left = iter([_pieces(tongue, answer, stream) for answer in answers])

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*next(left))

    return story


def _pieces(tongue: Tongue, answer: Answer, stream: bool) -> list[bytes]:
    if stream:
        return [CHUNKED, *map(chunk, tongue.stream(answer)), LAST]
    return [sized(tongue.whole(answer), JSON)]


def read(tongue: Tongue, sent: Sent, stream: bool) -> Answer:
    """Read an answer that went well."""
    assert sent.status == 200, bytes(sent.body)
    assert sent.ending == "whole"
    kind = "text/event-stream; charset=utf-8" if stream else "application/json"
    assert sent.headers["content-type"] == kind
    return (tongue.read_stream if stream else tongue.read_whole)(bytes(sent.body))
