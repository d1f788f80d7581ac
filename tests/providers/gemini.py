"""Gemini's OpenAI-compatible endpoint, as strict as it can be about signatures.

The shapes are written from memory of what Google documents for Gemini 3: a call comes in one chunk,
signed in `extra_content.google.thought_signature`. Of calls that are made at once only the first is
signed. A turn of the history whose call lacks its signature is refused with 400, and errors are
lists. Google checks the current turn only; here all turns are checked.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from tests.wire.fake import CHUNKED, LAST, Peer, chunk, sized

Json = dict[str, Any]
Step = str | tuple[tuple[str, Json], ...]
"""A text, or calls that are made at once: the name and the arguments of each."""

PLACEHOLDER = "skip_thought_signature_validator"
# What is counted is not the point here.
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 0,
    "total_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
HEAD = "content-type: application/json"
CLOCK = ("clock", {"action": "get", "items": [], "taskId": ""})


def look(at: str) -> tuple[str, Json]:
    """Call the client's tool."""
    return "look", {"at": at}


def signature_in(call: Json) -> str:
    """Read the signature of a call."""
    signature: str = call.get("extra_content", {}).get("google", {}).get("thought_signature", "")
    return signature


class StrictGemini:
    """Takes one step after the other in each conversation, and wants its signatures back."""

    def __init__(self, *steps: Step) -> None:
        self.steps: Sequence[Step] = steps
        self.signatures: dict[str, str] = {}
        """What each call was signed with; nothing for those beside a signed one."""
        self.refused: list[str] = []
        self.is_down = False
        self.asked: list[Json] = []

    async def story(self, peer: Peer) -> None:
        """Answer whoever connects."""
        while True:
            body = json.loads((await peer.request()).body)
            if self.is_down:
                await peer.send(sized(b"{}", HEAD, status="503 Full"))
                continue
            self.asked.append(body)
            wrong = [why for message in body["messages"] if (why := self._judge(message))]
            if wrong:
                self.refused += wrong
                error = {"code": 400, "message": wrong[0], "status": "INVALID_ARGUMENT"}
                await peer.send(
                    sized(json.dumps([{"error": error}]).encode(), HEAD, status="400 No")
                )
            elif body.get("stream"):
                await peer.send(CHUNKED, *map(chunk, self._stream(body)), LAST)
            else:
                await peer.send(sized(self._whole(body), HEAD))

    def sent_signatures(self, number: int = -1) -> dict[str, str]:
        """Return how the calls of a request were signed, by their ids."""
        calls = [call for m in self.asked[number]["messages"] for call in m.get("tool_calls", ())]
        return {call["id"]: signature_in(call) for call in calls}

    def _judge(self, message: Json) -> str:
        """Say what is wrong with a message, if something is."""
        calls: list[Json] = message.get("tool_calls") or []
        if all(call["id"] in self.signatures for call in calls):
            wanted = [self.signatures[call["id"]] for call in calls]
        else:
            wanted = [PLACEHOLDER] * len(calls)
        if [signature_in(call) for call in calls] == wanted:
            return ""
        names = ", ".join(call["function"]["name"] for call in calls)
        return f"Function call is missing a thought_signature in functionCall parts: {names}."

    def _step(self, body: Json) -> tuple[int, Step]:
        """Go on after the last step that the history tells of."""
        told = re.findall(r'"id": "function-call-(\d+)-', json.dumps(body["messages"]))
        number = 1 + max(map(int, told), default=-1)
        return number, self.steps[min(number, len(self.steps) - 1)]

    def _answer(self, body: Json) -> tuple[list[Json], str]:
        number, step = self._step(body)
        if isinstance(step, str):
            return [{"role": "assistant", "content": step}], "stop"
        calls = [self._call(number, at, *call) for at, call in enumerate(step)]
        deltas: list[Json] = [{"tool_calls": [call]} for call in calls]
        deltas[0]["role"] = "assistant"
        return deltas, "tool_calls"

    def _call(self, step: int, at: int, name: str, arguments: Json) -> Json:
        ident = f"function-call-{step}-{secrets.token_hex(6)}"
        self.signatures[ident] = "" if at else secrets.token_urlsafe(90)
        function = {"name": name, "arguments": json.dumps(arguments)}
        call: Json = {"index": at, "id": ident, "type": "function", "function": function}
        if not at:
            call["extra_content"] = {"google": {"thought_signature": self.signatures[ident]}}
        return call

    def _stream(self, body: Json) -> list[bytes]:
        deltas, finish = self._answer(body)
        ends = [None] * (len(deltas) - 1) + [finish]
        choices = [
            {"index": 0, "delta": delta, "finish_reason": end}
            for delta, end in zip(deltas, ends, strict=True)
        ]
        envelope = {"id": "g-1", "object": "chat.completion.chunk", "created": 7}
        told = [
            {**envelope, "model": body["model"], "choices": [choice], "usage": USAGE}
            for choice in choices
        ]
        return [b"data: " + json.dumps(one).encode() + b"\n\n" for one in told] + [
            b"data: [DONE]\n\n"
        ]

    def _whole(self, body: Json) -> bytes:
        deltas, finish = self._answer(body)
        calls = [call for delta in deltas for call in delta.pop("tool_calls", ())]
        message = {"content": None, **deltas[0], **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        envelope = {"id": "g-1", "object": "chat.completion", "created": 7, "model": body["model"]}
        return json.dumps({**envelope, "choices": [choice], "usage": USAGE}).encode()
