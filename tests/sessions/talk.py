"""Conversations, models and sessions: the words the tests here are written in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.gateway.client import Answer
from tests.gateway.wire import get, request, turn, usage, whole
from tests.run import Running
from tests.wire.fake import CHUNKED, LAST, Peer, Request, Story, chunk, sized

Message = dict[str, Any]

JSON = "content-type: application/json"
SESSION = "x-session-id: s"
GO_ON = '<**stopMessage:"go on",3**>'


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def system(content: Any) -> Message:
    return {"role": "system", "content": content}


def talk(*said: str | Message, stream: bool = True, **more: Any) -> bytes:
    """Write a request of a conversation; a bare text is a user's."""
    history = [user(item) if isinstance(item, str) else item for item in said]
    return json.dumps({"model": "m", "messages": history, "stream": stream, **more}).encode()


def messages(asked: Request) -> list[Message]:
    """Read the messages an upstream was sent."""
    found: list[Message] = json.loads(asked.body)["messages"]
    return found


def newest(asked: Request) -> Any:
    """Read the content of the last message an upstream was sent."""
    return messages(asked)[-1]["content"]


def text_of(answer: Answer) -> str:
    """Read what an answer says, streamed or whole."""
    assert answer.status == 200, bytes(answer.body)
    if answer.headers["content-type"].startswith("text/event-stream"):
        assert not answer.failed
        return answer.text
    text: str = answer.json["choices"][0]["message"]["content"]
    return text


def model(*texts: str | tuple[str, str]) -> Story:
    """Answer the n-th request with the n-th text, and with the last one for ever.

    A pair is a text and why it ended. Without texts every answer is another one. It is streamed or
    whole, as was asked.
    """
    numbers = count(1)

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            number = next(numbers)
            said = texts[min(number, len(texts)) - 1] if texts else f"answer {number}"
            text, finish = (said, "stop") if isinstance(said, str) else said
            await peer.send(*reply(text, number, finish, stream=asked["stream"]))

    return story


def reply(said: str, number: int = 1, finish: str = "stop", *, stream: bool) -> tuple[bytes, ...]:
    """Write one answer as an upstream sends it; the n-th costs 10 n and n tokens."""
    if stream:
        return CHUNKED, chunk(turn(said, finish=finish, counted=usage(10 * number, number))), LAST
    tokens = {"prompt_tokens": 10 * number, "completion_tokens": number}
    return (sized(whole(said, finish, usage=tokens), JSON),)


def follow_ups(requests: Iterable[Request]) -> list[Request]:
    """Return the requests that are follow-ups."""
    return [r for r in requests if b":stop_followup" in r.headers[b"x-request-id"]]


def kept(directory: Path) -> dict[str, Any]:
    """Return the settings of a gateway that keeps its sessions in files."""
    return {"store__url": "", "server__session_dir": str(directory)}


def document(directory: Path, session: str = "s") -> Message:
    """Read the file of a session."""
    found: Message = json.loads(directory.joinpath("session", f"{session}.json").read_bytes())
    return found


async def look(gate: Running, session: str = "s", *headers: str) -> Answer:
    """Ask what is in force in a session."""
    return await gate.fetch(get(f"/api/sessions/{quote(session, safe='')}", *headers))


async def stop_message(gate: Running, session: str = "s") -> Any:
    """Return what is shown of a session's stop message."""
    answer = await look(gate, session)
    assert answer.status == 200, bytes(answer.body)
    return answer.json["stopMessage"]


async def forget(gate: Running, session: str = "s", *headers: str) -> Answer:
    """Have a session forgotten."""
    return await gate.fetch(request("DELETE", f"/api/sessions/{quote(session, safe='')}", *headers))


def told(answer: Answer) -> str:
    """Return what the answer says of its directives."""
    return answer.headers.get("x-holdgate-directive", "")


def notes_of(gate: Running, event: str) -> list[Message]:
    """Return the log lines of one kind."""
    lines = [json.loads(line) for line in gate.log.splitlines()]
    return [line for line in lines if line["event"] == event]
