"""Models for jobs: they answer when they are told to, fail, and call tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.clock.words import Call, streamed
from tests.clock.words import Said as Turn
from tests.gateway.wire import Cue
from tests.jobs.words import MARKER
from tests.sessions.talk import JSON, Message
from tests.wire.fake import Peer, Story, sized

Act = Turn | Callable[[Message], Turn]


def cued(cue: Cue, *texts: str, only: str = "") -> Story:
    """Answer each request with the next text, the last one for ever, but only at a sign.

    With `only`, no other requests than those that say so wait for one. Markers are answered at once.
    """
    left = list(texts)

    async def story(peer: Peer) -> None:
        while True:
            asked = (await peer.request()).body
            if MARKER.encode() in asked:
                await peer.send(*streamed(Turn(MARKER)))
                continue
            if only.encode() in asked:
                await cue.wait()
            said = left.pop(0) if len(left) > 1 else left[0]
            await peer.send(*streamed(Turn(said)))

    return story


def failing(*texts: str, says: str = "no luck") -> Story:
    """Answer each request with the next text; an empty one, and all after the last, fail."""
    left = list(texts)
    body = json.dumps({"error": {"message": says}}).encode()

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            text = left.pop(0) if left else ""
            refusal = sized(body, JSON, status="500 Internal Server Error")
            await peer.send(*(streamed(Turn(text)) if text else (refusal,)))

    return story


def failing_after(*turns: Turn) -> Story:
    """Say these turns, one a request; all requests after them fail."""
    left = list(turns)

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            refusal = sized(b"{}", JSON, status="500 Internal Server Error")
            await peer.send(*(streamed(left.pop(0)) if left else (refusal,)))

    return story


def task(action: str, **members: Any) -> Call:
    """Call the tool that jobs are set with."""
    return Call("schedule_task", json.dumps({"action": action, **members}))


def told(asked: Message) -> Any:
    """Read what the tool said that was called last."""
    last = asked["messages"][-1]
    assert last["role"] == "tool", last
    return json.loads(last["content"])
