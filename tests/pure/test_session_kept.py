"""Turns that a session keeps to put them together again: how long, how many, and written how."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gateway.exchange.additions import ToolResult
from gateway.sessions.model import (
    KEPT_MS,
    MOST_KEPT,
    MOST_KEPT_BYTES,
    KeptTurn,
    SessionState,
    StopMessage,
    decode_state,
    encode_state,
    find_expiry,
    keep,
    living,
    without_old,
)
from gateway.stores.documents import LARGEST_DOCUMENT

NOW = 1_770_000_000_000
EMPTY = SessionState()
KEPT = KeptTurn(b'{"role":"assistant"}', "openai-chat", ("w1",), (ToolResult("c1", "noon"),), NOW)


def at(moment: int, **changes: Any) -> KeptTurn:
    return replace(KEPT, at_ms=NOW + moment, **changes)


def test_what_is_kept_lives_for_a_day() -> None:
    state = keep(EMPTY, KEPT, NOW)
    assert living(state, NOW) == state.kept == (KEPT,)
    assert living(state, NOW + KEPT_MS - 1) == (KEPT,)
    assert living(state, NOW + KEPT_MS) == ()
    assert living(state, NOW - KEPT_MS) == (KEPT,)
    later = keep(state, at(KEPT_MS), NOW + KEPT_MS)
    assert later.kept == (at(KEPT_MS),)


def test_what_is_too_old_can_be_forgotten() -> None:
    assert find_expiry(EMPTY) is None
    state = keep(keep(EMPTY, KEPT, NOW), at(5), NOW + 5)
    assert find_expiry(state) == NOW + KEPT_MS
    assert without_old(state, NOW + KEPT_MS - 1) is state
    assert without_old(state, NOW + KEPT_MS).kept == (at(5),)
    assert without_old(state, NOW + KEPT_MS + 5) == EMPTY


def test_the_oldest_come_first_and_go_first() -> None:
    state = EMPTY
    for moment in range(MOST_KEPT + 3):
        state = keep(state, at(moment), NOW + moment)
    assert [kept.at_ms - NOW for kept in state.kept] == list(range(3, MOST_KEPT + 3))


def test_and_when_they_take_too_much_room() -> None:
    third = MOST_KEPT_BYTES // 3
    state = EMPTY
    for moment in range(4):
        state = keep(state, at(moment, message=b"x" * (third - 100)), NOW)
    assert [kept.at_ms - NOW for kept in state.kept] == [1, 2, 3]
    results = (ToolResult("c1", "é" * (third // 2)),)
    state = keep(state, at(4, message=b"x" * third, results=results), NOW)
    assert [kept.at_ms - NOW for kept in state.kept] == [3, 4]
    assert sum(kept.size for kept in state.kept) <= MOST_KEPT_BYTES


@pytest.mark.parametrize("useless", [at(0, calls=()), at(0, message=b"x" * MOST_KEPT_BYTES)])
def test_what_could_never_be_used_or_leaves_no_room_is_not_kept(useless: KeptTurn) -> None:
    state = keep(EMPTY, KEPT, NOW)
    assert keep(state, useless, NOW) is state


def test_the_worst_that_is_kept_fits_into_a_document() -> None:
    longest = "\0" * (MOST_KEPT_BYTES - KEPT.size)
    state = keep(EMPTY, at(0, results=(ToolResult("c1", longest),)), NOW)
    assert len(state.kept) == 1
    assert len(msgspec.json.encode(encode_state(state))) < LARGEST_DOCUMENT


def test_keeping_touches_nothing_else() -> None:
    armed = SessionState(StopMessage("go on", 3, NOW))
    state = keep(armed, KEPT, NOW)
    assert replace(state, kept=()) == armed


def test_the_fields_have_their_names() -> None:
    state = keep(EMPTY, KEPT, NOW)
    assert encode_state(state) == {
        "pendingTools": [
            {
                "message": '{"role":"assistant"}',
                "dialect": "openai-chat",
                "calls": ["w1"],
                "results": [{"callId": "c1", "text": "noon"}],
                "keptAtMs": NOW,
            }
        ]
    }
    assert decode_state(msgspec.json.decode(msgspec.json.encode(encode_state(state)))) == state


GOOD: dict[str, Any] = {
    "message": "{}",
    "dialect": "d",
    "calls": ["w1"],
    "results": [{"callId": "c1", "text": ""}],
    "keptAtMs": NOW,
}


@pytest.mark.parametrize(
    "pending",
    [
        None,
        "x",
        {"x": 1},
        ["x"],
        [{}],
        [{**GOOD, "message": {}}],
        [{**GOOD, "dialect": None}],
        [{**GOOD, "calls": "w1"}],
        [{**GOOD, "calls": [1]}],
        [{**GOOD, "results": {}}],
        [{**GOOD, "results": [{"callId": "c1"}]}],
        [{**GOOD, "results": [["c1", ""]]}],
        [{**GOOD, "keptAtMs": -1}],
        [GOOD, {**GOOD, "keptAtMs": True}],
    ],
)
def test_a_document_that_is_none_is_an_error_of_lookup_type_or_value(pending: object) -> None:
    assert decode_state({"pendingTools": [GOOD]}).kept[0].calls == ("w1",)
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode_state({"pendingTools": pending})
