"""What one attempt at a turn leaves behind when another one follows it: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.statuses import status_of
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import split

ANSWERS = Path(__file__).parents[1] / "fixtures" / "answers"
NAMES = {"chat": "openai-chat", "messages": "anthropic-messages", "responses": "openai-responses"}
BARE = b": wait\n"
each = pytest.mark.parametrize("name", NAMES)


def announcing(name: str) -> list[bytes]:
    """Return the frames of a recorded stream, from the first that is an event."""
    frames = split(ANSWERS.joinpath(f"{name}_text.sse").read_bytes())
    return [frame for frame in frames if b"data:" in frame]


@each
def test_no_heartbeat_tells_of_frames_that_are_not_shown_yet(name: str) -> None:
    asked = ModelRequest(model="m", body=b"{}", stream=True)
    splice = DIALECTS[NAMES[name]].splice(asked, frozenset(), 10**6)
    frames = announcing(name)
    assert splice.heartbeat() == BARE
    splice.tap().feed(frames[0])
    told = splice.heartbeat()
    assert told != BARE
    splice.settling = True
    assert splice.heartbeat() == BARE
    splice.settling = False
    assert splice.heartbeat() == told


@each
def test_a_new_attempt_has_an_envelope_of_its_own(name: str) -> None:
    asked = ModelRequest(model="m", body=b"{}", stream=True)
    splice = DIALECTS[NAMES[name]].splice(asked, frozenset(), 10**6)
    frames = announcing(name)
    splice.tap().feed(frames[0])
    splice.heartbeat()
    tap = splice.tap()
    assert splice.heartbeat() == BARE
    tap.feed(frames[0].replace(b'"id":"', b'"id":"other_'))
    told = splice.heartbeat()
    # A ping names nobody.
    assert b'"id":"other_' in told or name == "messages"


ASKED = b'{"model":"m","stream":true,"messages":[]}'


def test_an_error_keeps_its_status_where_the_other_dialect_has_no_word_for_it() -> None:
    translators = Translators(
        {"a": UpstreamDialect("anthropic-messages")}, 10**6, 10**6, lambda: 7.0
    )
    translator = translators.make_translator("a", DIALECTS["openai-chat"], ASKED, "turn")
    assert translator is not None
    assert translator.failure is None
    translator.feed(b'data: {"type":"message_start","message":{"id":"x"}}\n\n')
    translator.feed(
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"No."}}\n\n'
    )
    assert translator.failure is not None
    assert translator.failure.status == 529


@pytest.mark.parametrize(
    "kind, code, status",
    [
        (None, 429, 429),
        ("rate_limit_error", 1300, 429),
        ("server_error", "insufficient_quota", 429),
        ("overloaded_error", "unknown", 529),
        ("unknown", None, 502),
        ([], {}, 502),
        (None, None, 502),
    ],
)
def test_an_error_without_a_status_has_that_of_its_name(
    kind: object, code: object, status: int
) -> None:
    assert status_of(kind, code) == status
