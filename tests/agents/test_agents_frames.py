"""What the runner shows, read as what happened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.agents.conversations import (
    Failure,
    ForeignCallShown,
    ReasoningShown,
    Shown,
    TextShown,
    read_failure,
    read_frames,
)
from gateway.errors import UpstreamAnswered
from gateway.wire.sse import comment
from tests.gateway.wire import DONE, data, event, text, usage

CALL = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": "{"}}
FRAMES: dict[str, tuple[bytes, list[Shown]]] = {
    "text": (text("hi") + text("ho"), [TextShown("hi"), TextShown("ho")]),
    "a thought": (event({"reasoning_content": "hm"}), [ReasoningShown("hm")]),
    "a thought by another name": (event({"reasoning": "hm"}), [ReasoningShown("hm")]),
    "one under both": (
        event({"reasoning": "hm", "reasoning_content": "hm"}),
        [ReasoningShown("hm")],
    ),
    "a thought and text": (
        event({"content": "b", "reasoning": "a"}),
        [ReasoningShown("a"), TextShown("b")],
    ),
    "a refusal": (event({"refusal": "no"}), [TextShown("no")]),
    "a call": (event({"tool_calls": [CALL]}), [ForeignCallShown("shell")]),
    "more of a call": (event({"tool_calls": [{"function": {"arguments": "}"}}]}), []),
    "nothing": (event({}, "stop") + usage(1, 2) + DONE, []),
    "no text": (event({"content": None, "reasoning": 7}), []),
    "a comment": (comment("wait"), []),
    "an error": (data({"error": {"message": "no"}}), []),
    "garbage": (b"data: {]\n\n", []),
}


@pytest.mark.parametrize("frames, found", FRAMES.values(), ids=FRAMES)
def test_what_frames_say(frames: bytes, found: list[Shown]) -> None:
    assert list(read_frames(frames)) == found


ERRORS: list[tuple[Any, str, str]] = [
    ({"message": "no", "code": "bad_key", "type": "auth"}, "no", "bad_key"),
    ({"message": "no", "code": None, "type": "auth"}, "no", "auth"),
    ({"message": "no", "code": 1214}, "no", "1214"),
    ({"code": {}}, "The model failed and did not say why.", "upstream_error"),
    ("overloaded", "The model failed: overloaded", "upstream_error"),
]


@pytest.mark.parametrize("error, message, code", ERRORS, ids=[json.dumps(e[0]) for e in ERRORS])
def test_what_went_wrong(error: Any, message: str, code: str) -> None:
    answered = UpstreamAnswered(500, (), json.dumps({"error": error}).encode())
    assert read_failure(answered) == Failure(message, code)
