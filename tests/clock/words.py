"""Models that call the clock, scripted, and what is seen of it from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gateway.client import Answer
from tests.gateway.wire import DONE, event
from tests.sessions.talk import JSON, Message, messages
from tests.wire.fake import CHUNKED, LAST, Peer, Request, Story, chunk, sized

NOW = 1_770_067_358_229
"""2026-02-02T21:22:38.229Z"""
MINUTE = 60_000
TAG = "[Time/Date]: "
# Whatever a call of the clock, its result, a tag or a reminder has in it, and no answer here.
OURS = (b"clock", b"Time/Date", b"Clock Reminder", b"nowMs", b"taskId", b"dueAt")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a model; without an id, as some models send them, it is empty."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of a model."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""

    @property
    def reason(self) -> str:
        """Why it ended: as said, or as it would be usual."""
        return self.finish or ("tool_calls" if self.calls else "stop")


Act = Said | Callable[[Message], Said]


def clock(action: str, *items: Message, ident: str = "call_1", task_id: str = "") -> Call:
    """Call the clock as its schema wants it."""
    arguments = {"action": action, "items": items, "taskId": task_id}
    return Call("clock", json.dumps(arguments), ident)


def item(due_at: str, task: str, tool: str = "", arguments: str = "{}") -> Message:
    """Write a reminder as the schema wants it."""
    return {"dueAt": due_at, "task": task, "tool": tool, "arguments": arguments}


def says(text: str, *calls: Call, finish: str = "") -> Said:
    """Say something, and call tools after it."""
    return Said(text, calls, finish)


def play(*acts: Act) -> Story:
    """Play one act for each request, and the last one for ever; streamed or whole, as was asked.

    An act that is a function is given the request, and looks around before it answers.
    """
    left = list(acts)

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            act = left.pop(0) if len(left) > 1 else left[0]
            said = act if isinstance(act, Said) else act(asked)
            await peer.send(*sent(said, asked.get("stream", False)))

    return story


def sent(said: Said, stream: bool) -> tuple[bytes, ...]:
    """Write a turn as an upstream sends it."""
    return streamed(said) if stream else (complete(said),)


def streamed(said: Said) -> tuple[bytes, ...]:
    """Write a turn as a stream: a packet and a chunk an event, arguments in two pieces."""
    return CHUNKED, *map(chunk, _events(said)), LAST


def _events(said: Said) -> list[bytes]:
    events = [event({"role": "assistant", "content": ""})]
    events += [event({"content": said.text})] if said.text else []
    for index, call in enumerate(said.calls):
        events += [event({"tool_calls": [part]}) for part in _fragments(index, call)]
    return [*events, event({}, said.reason), DONE]


def _fragments(index: int, call: Call) -> list[Message]:
    half = len(call.arguments) // 2
    named = {"id": call.id} if call.id else {}
    function = {"name": call.name, "arguments": ""}
    pieces = ({"arguments": call.arguments[:half]}, {"arguments": call.arguments[half:]})
    return [
        {"index": index, **named, "type": "function", "function": function},
        *({"index": index, "function": piece} for piece in pieces),
    ]


def complete(said: Said) -> bytes:
    """Write a turn as a whole answer."""
    return sized(body_of(said, stream=False), JSON)


def body_of(said: Said, stream: bool) -> bytes:
    """Write a turn as all the bytes that an upstream says."""
    if stream:
        return b"".join(_events(said))
    choice = {"index": 0, "message": message(said), "finish_reason": said.reason}
    body = {"id": "a", "object": "chat.completion", "created": 7, "choices": [choice]}
    return json.dumps(body).encode()


def message(said: Said) -> Message:
    """Write a turn as the message that a conversation has of it."""
    written: Message = {"role": "assistant", "content": said.text or None}
    if said.calls:
        written["tool_calls"] = [_written(call) for call in said.calls]
    return written


def _written(call: Call) -> Message:
    function = {"name": call.name, "arguments": call.arguments}
    named = {"id": call.id} if call.id else {}
    return {**named, "type": "function", "function": function}


def result(call: Call, content: str) -> Message:
    """Write what a tool of the client's returned."""
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def function(name: str) -> Message:
    """Write the declaration of a tool of the client's."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def told(asked: Message) -> Message:
    """Read the newest tool result of a request."""
    last = asked["messages"][-1]
    assert last["role"] == "tool", last
    found: Message = json.loads(last["content"])
    return found


def tools(asked: Request) -> list[str]:
    """Read the names of the tools an upstream was offered."""
    return [tool["function"]["name"] for tool in json.loads(asked.body).get("tools", ())]


def tags(asked: Request) -> list[int]:
    """Tell where in a request's messages time tags stand."""
    found = enumerate(messages(asked))
    return [at for at, one in found if str(one.get("content")).startswith(TAG)]


def ids(requests: list[Request]) -> list[str]:
    """Read under which ids an upstream was asked."""
    return [request.headers[b"x-request-id"].decode() for request in requests]


def reminders(directory: Path, session: str = "s") -> Message:
    """Read the file of a session's reminders."""
    found: Message = json.loads(directory.joinpath("clock", f"{session}.json").read_bytes())
    return found


def heard(answer: Answer) -> Said:
    """Read what a client was answered, streamed or whole; there is nothing of the clock in it."""
    assert answer.status == 200, bytes(answer.body)
    assert not [word for word in OURS if word in answer.body], bytes(answer.body)
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return _heard_whole(answer)
    assert not answer.failed
    assert answer.datas.count(b"[DONE]") == 1
    assert len({chunk["id"] for chunk in answer.events}) == 1
    choices = [choice for chunk in answer.events for choice in chunk["choices"]]
    (finish,) = [c["finish_reason"] for c in choices if c["finish_reason"]]
    calls: dict[int, Call] = {}
    for fragment in (f for c in choices for f in c["delta"].get("tool_calls", ())):
        calls[fragment["index"]] = _longer(calls.get(fragment["index"]), fragment)
    assert list(calls) == list(range(len(calls)))
    return Said(answer.text, tuple(calls.values()), finish)


def _longer(known: Call | None, fragment: Message) -> Call:
    added = fragment["function"]
    if known is None:
        return Call(added["name"], added.get("arguments", ""), fragment["id"])
    assert not added.get("name")
    assert fragment.get("id", known.id) == known.id
    return Call(known.name, known.arguments + added.get("arguments", ""), known.id)


def _heard_whole(answer: Answer) -> Said:
    (choice,) = answer.json["choices"]
    said: dict[str, Any] = choice["message"]
    functions = [(call["id"], call["function"]) for call in said.get("tool_calls") or ()]
    calls = tuple(Call(f["name"], f["arguments"], ident) for ident, f in functions)
    return Said(said["content"] or "", calls, choice["finish_reason"])
