"""Talking to agents, from outside: the words the tests here are written in."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.clock.words import Said, streamed
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.run import Running, in_process
from tests.sessions.talk import JSON, Message, messages
from tests.wire.fake import Peer, Story

Event = tuple[str, Message]

AGENTS = [
    {"id": "helper", "name": "Helper", "model": "m", "system": "You help."},
    {"id": "other", "model": "m"},
]
TERMINAL = ("complete", "error")
LAST = b"event: complete\n"


def room(*stories: Story | None, **options: Any) -> AbstractAsyncContextManager[Running]:
    """Run a gateway with agents whose model answers so."""
    tables = {"agents": AGENTS, **options.pop("tables", {})}
    return in_process(*stories, tables=tables, **options)


def says(message: str, *headers: str, agent: str = "helper", **more: Any) -> bytes:
    """Write a message to an agent."""
    return posts({"message": message, "agentId": agent, **more}, *headers)


def calling(act: Said) -> Story:
    """Call tools, and be silent once told what they returned."""

    async def story(peer: Peer) -> None:
        while "tool" not in [m["role"] for m in messages(await peer.request())]:
            await peer.send(*streamed(act))
        await peer.gone()

    return story


def posts(body: Any, *headers: str) -> bytes:
    """Write any body to the agents."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request("POST", "/api/chat", JSON, *headers, body=data)


def events(answer: Answer) -> list[Event]:
    """Read the events of an answer: their names and data."""
    found: list[Event] = []
    for frame in bytes(answer.body).decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if line[:1] != ":")
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def heard(answer: Answer, session: str = "helper") -> list[Event]:
    """Read a whole answer, without what all of them have in common: start, end, one terminal."""
    assert answer.status == 200, bytes(answer.body)
    assert answer.ending == "whole"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    found = events(answer)
    assert all(data.pop("sessionId") == session for _, data in found)
    names = [name for name, _ in found]
    assert names[0] == "start"
    assert names[-2] == "end"
    assert names[-1] in TERMINAL
    assert not {"start", "end", *TERMINAL}.intersection(names[1:-2])
    return [*found[1:-2], found[-1]]


def text_of(answer: Answer, session: str = "helper") -> str:
    """Read what an agent said in an answer that is complete."""
    found = heard(answer, session)
    assert found[-1][0] == "complete", found[-1]
    return "".join(data["delta"] for name, data in found if name == "text")


def reason_of(answer: Answer, session: str = "helper") -> str:
    """Read why an answer ended, or the code of what went wrong."""
    name, data = heard(answer, session)[-1]
    found: str = data["reason"] if name == "complete" else data["code"]
    return found


async def said(gate: Running, message: str, *headers: str, **more: Any) -> Answer:
    """Say something to an agent, and hear it out."""
    return await gate.fetch(says(message, *headers, **more))


async def begin(gate: Running, message: str, *headers: str, **more: Any) -> Client:
    """Say something to an agent, and see that it begins to answer."""
    client = await gate.send(says(message, *headers, **more))
    await client.saw(b"event: start\n")
    return client


async def messages_of(gate: Running, session: str = "helper") -> list[Message]:
    """Read what is kept of a conversation; nothing, if nothing is."""
    answer = await gate.fetch(get(f"/api/sessions/{session}"))
    found: list[Message] = answer.json["messages"] if answer.status == 200 else []
    return found


def roles(found: list[Message]) -> list[str]:
    """Tell who spoke, and that every call has a result."""
    called = [call["id"] for message in found for call in message.get("tool_calls", ())]
    assert called == [m["tool_call_id"] for m in found if m["role"] == "tool"]
    return [message["role"] for message in found]


def noted(gate: Running, *names: str) -> list[Message]:
    """Read the log lines of these kinds."""
    lines = [json.loads(line) for line in gate.log.splitlines()]
    return [line for line in lines if line["event"] in names]
