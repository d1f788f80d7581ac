"""What is stored of a session keeps what kind of request it comes from."""

from __future__ import annotations

from gateway.sessions.model import (
    DONE,
    UNCHANGED,
    DirectiveReport,
    SessionState,
    decode_state,
    encode_state,
    sign,
)


def test_the_state_keeps_what_kind_of_request_it_comes_from() -> None:
    done, same = DirectiveReport((DONE,)), DirectiveReport((UNCHANGED,))
    state = sign(SessionState(), "digest", done)
    assert state.setter == "digest"
    assert decode_state(encode_state(state)) == state
    assert sign(state, "", same) is state
    assert sign(state, "digest", done) is state
    assert sign(state, "", done).setter == ""
    assert sign(SessionState(), "digest", same).setter == "digest"
