"""Reminders, holds and what an upstream is told of them: the words the tests here are written in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from gateway.clock import Clock
from gateway.timestamps import iso
from tests.gateway.client import Answer, Client
from tests.gateway.wire import DONE, event, get, request, text, usage, whole
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON, messages, talk
from tests.wire.fake import CHUNKED, LAST, Peer, Request, Story, chunk, sized

NOW = 1_770_067_358_229
SECOND = 1000
HOUR = 3600 * SECOND
BEAT = event({})
"""A heartbeat of an answer whose first turn is that of `acting`."""
BEATING = {"server__keepalive_ms": 20}
TASK = re.compile(r'^\[scheduled task:"(.*?)"', re.MULTILINE)

Act = Callable[[dict[str, Any], str], tuple[bytes, ...]]
"""What a model does in a turn: what it was asked and the id of its answer make packets."""


def room(clock: Clock, *stories: Story, **settings: Any) -> AbstractAsyncContextManager[Running]:
    """Run a gateway that goes by this clock, on which reminders are due to the second."""
    return in_process(*stories, clock=clock, **{"clock__due_window_ms": 0, **settings})


# What a model does.


def acting(*acts: Act) -> Story:
    """Play an act for each turn of a conversation, the last one for ever.

    It goes by what was said before, so that many conversations can take place at once.
    """

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            spoken = sum(message["role"] == "assistant" for message in asked["messages"])
            await peer.send(*acts[min(spoken, len(acts) - 1)](asked, "abcdefgh"[spoken]))

    return story


def says(words: str, finish: str = "stop") -> Act:
    """Say something and end the turn."""

    def act(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
        if not asked["stream"]:
            tokens = {"prompt_tokens": 10, "completion_tokens": 1}
            return (sized(whole(words, finish, usage=tokens), JSON),)
        role = event({"role": "assistant", "content": ""}, ident=ident)
        said = role + text(words, ident) + event({}, finish, ident) + usage(10, 1, ident) + DONE
        return CHUNKED, chunk(said), LAST

    return act


def calls(name: str, arguments: Callable[[dict[str, Any]], dict[str, Any]]) -> Act:
    """Call a tool, with arguments made of what was asked."""

    def act(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
        function = {"name": name, "arguments": json.dumps(arguments(asked))}
        call = {"id": f"call_{ident}", "type": "function", "function": function}
        if not asked["stream"]:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            return (sized(json.dumps({"id": ident, "choices": [choice]}).encode(), JSON),)
        begun = event({"role": "assistant", "tool_calls": [{"index": 0, **call}]}, ident=ident)
        return CHUNKED, chunk(begun + event({}, "tool_calls", ident) + DONE), LAST

    return act


def schedules(in_ms: int, task: str = "drink tea") -> Act:
    """Set a reminder by the clock of the time tag."""

    def arguments(asked: dict[str, Any]) -> dict[str, Any]:
        item = {"dueAt": iso(told_ms(asked) + in_ms), "task": task, "tool": "", "arguments": "{}"}
        return {"action": "schedule", "items": [item], "taskId": ""}

    return calls("clock", arguments)


def fails(status: str) -> Act:
    """Answer with an error status."""
    return lambda asked, ident: (sized(b'{"error":{"message":"no"}}', JSON, status=status),)


def told_ms(asked: dict[str, Any]) -> int:
    """Read the newest time tag of a request."""
    contents = [str(message["content"]) for message in asked["messages"]]
    tag = next(content for content in reversed(contents) if content.startswith("[Time/Date]"))
    return int(tag.partition("nowMs=`")[2].partition("`")[0])


# What an upstream was told.


def reminded(asked: Request) -> list[str]:
    """List the tasks of the reminders a request carries."""
    said = [m["content"] for m in messages(asked) if m["role"] == "user"]
    found = [content for content in said if str(content).startswith("[Clock Reminder]")]
    return [task for content in found for task in TASK.findall(content)]


def results(asked: Request) -> list[Any]:
    """List what the clock returned to the model so far."""
    return [json.loads(m["content"]) for m in messages(asked) if m["role"] == "tool"]


def suffixes(gate: Running) -> list[str]:
    """List by which suffix each request to the upstreams was named; a first turn has none."""
    names = [asked.headers[b"x-request-id"].decode() for asked in gate.requests]
    return [name.partition(":")[2] for name in names]


# By hand.


def path_of(session: str, task_id: str = "") -> str:
    """Return where the reminders of a session are, or one of them."""
    return f"/api/sessions/{session}/reminders" + (f"/{task_id}" if task_id else "")


async def remind(
    gate: Running, in_ms: int, task: str = "drink tea", session: str = "s", *headers: str
) -> str:
    """Set a reminder over REST; return its id."""
    item = {"dueAt": iso(gate.gateway.clock.now_ms() + in_ms), "task": task}
    body = json.dumps(item).encode()
    answer = await gate.fetch(request("POST", path_of(session), JSON, *headers, body=body))
    assert answer.status == 201, bytes(answer.body)
    task_id: str = answer.json["scheduled"][0]["taskId"]
    return task_id


async def listed(gate: Running, session: str = "s") -> list[dict[str, Any]]:
    """List the reminders of a session."""
    items: list[dict[str, Any]] = (await gate.fetch(get(path_of(session)))).json["items"]
    return items


async def delivered(gate: Running, session: str = "s") -> list[str]:
    """List the tasks of a session that were delivered."""
    return [item["task"] for item in await listed(gate, session) if "deliveredAt" in item]


async def remove(gate: Running, task_id: str = "", session: str = "s") -> None:
    """Remove a reminder of a session, or all of them."""
    answer = await gate.fetch(request("DELETE", path_of(session, task_id)))
    assert answer.status == 200, bytes(answer.body)


async def metrics(gate: Running, name: str) -> dict[str, float]:
    """Read the values of a metric, by what stands in its braces."""
    lines = bytes((await gate.fetch(get("/metrics"))).body).decode().splitlines()
    found = [re.fullmatch(rf"holdgate_{name}(?:{{(.*)}})? (\S+)", line) for line in lines]
    return {match[1] or "": float(match[2]) for match in found if match}


# Answers.


async def held(gate: Running, count: int = 1) -> None:
    """Wait until so many answers are held, and no others are under way."""
    wanted = ["holding"] * count
    await until(lambda: gate.states == wanted and len(gate.gateway.holds) == count)


async def held_for(gate: Running, *sessions: str, in_ms: int = SECOND) -> list[Client]:
    """Ask in some sessions, each with a reminder of its own, and wait until all are held."""
    clients: list[Client] = []
    for session in sessions:
        await remind(gate, in_ms, f"tea of {session}", session)
        clients.append(await gate.start(talk("hi"), f"x-session-id: {session}"))
        await held(gate, len(clients))
    return clients


def finish_of(answer: Answer) -> str:
    """Return why a stream ended that is one message from its beginning to its end."""
    assert answer.ending == "whole"
    assert answer.datas.count(b"[DONE]") == 1
    assert answer.datas[-1] == b"[DONE]"
    events = answer.events
    assert {chunk["id"] for chunk in events} == {"a"}
    deltas = [choice["delta"] for chunk in events for choice in chunk["choices"]]
    assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]
    finishes = [choice["finish_reason"] for chunk in events for choice in chunk["choices"]]
    assert finishes[-1]
    assert not any(finishes[:-1])
    finish: str = finishes[-1]
    return finish


def notes(answer: Answer) -> list[dict[str, Any]]:
    """Read the notes for people in a stream."""
    lines = bytes(answer.body).decode().splitlines()
    mark = ": holdgate "
    return [json.loads(line.removeprefix(mark)) for line in lines if line.startswith(mark)]
