"""What a session remembers: pure changes, and its document there and back."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Draining, UpstreamAnswered, UpstreamUnreachable
from gateway.exchange.additions import ToolResult, UserText
from gateway.exchange.effects import Close, OpenTurn
from gateway.exchange.events import OpeningFailed, Outcome, TurnFinished, TurnOpened
from gateway.exchange.machine import Exchange
from gateway.exchange.model import Route, Stop, TurnEnd
from gateway.exchange.rules import SAME_ANSWERS
from gateway.sessions.directives.memory import REMEMBERED_MS, NewestMessage, SentMessage
from gateway.sessions.directives.model import Found, SetStopMessage, Target
from gateway.sessions.directives.reader import read
from gateway.sessions.directives.routing import Routing
from gateway.sessions.model import (
    RENEW_MS,
    DirectiveContext,
    DirectiveReport,
    KeptTurn,
    SessionState,
    StopMessage,
    StopRules,
    apply_directives,
    clear_routing,
    clear_stop,
    decode_state,
    disarm,
    encode_state,
    needs_session,
    use_one,
)

NOW = 1_770_000_000_000
RULES = StopRules()
EMPTY = SessionState()
STOP = StopMessage("go on", 3, NOW)
ARMED = SessionState(STOP)


def found(text: str) -> tuple[Found, ...]:
    return read(text, ("a", "b")).directives


def after(
    text: str,
    state: SessionState = EMPTY,
    *,
    rules: StopRules = RULES,
    ordinal: int = 1,
    now: int = NOW,
) -> tuple[SessionState, DirectiveReport]:
    return apply_directives(
        state, found(text), rules, DirectiveContext(NewestMessage(ordinal, (text,)), now)
    )


def test_setting_it() -> None:
    state, told = after('<**stopMessage:"go on",3**>')
    assert state.stop == STOP
    assert told == DirectiveReport(("set",))
    assert told.header() == "set"


def test_setting_it_anew_begins_anew() -> None:
    used = SessionState(replace(STOP, used=2, last_used_at_ms=NOW))
    state, _ = after('<**stopMessage:"x"**>', used, now=NOW + 5)
    assert state.stop == StopMessage("x", RULES.default_repeats, NOW + 5)


@pytest.mark.parametrize(
    "asked, cap, repeats, lowered",
    [
        (None, 0, 10, None),
        (3, 0, 3, None),
        (999_999_999, 0, 999_999_999, None),
        (3, 5, 3, None),
        (5, 5, 5, None),
        (6, 5, 5, 5),
        (None, 5, 5, None),
    ],
)
def test_counts_and_the_cap(asked: int | None, cap: int, repeats: int, lowered: int | None) -> None:
    rules = StopRules(max_repeats=cap)
    count = "" if asked is None else f",{asked}"
    state, told = after(f'<**stopMessage:"x"{count}**>', rules=rules)
    assert state.stop is not None
    assert state.stop.max_repeats == repeats
    assert told.lowered_to == lowered


def test_only_what_was_set_was_lowered() -> None:
    rules = StopRules(max_repeats=5, longest_bytes=10)
    _, told = after(f'<**stopMessage:"{"x" * 11}",9**>', ARMED, rules=rules)
    assert told.lowered_to is None


REFUSALS: dict[str, tuple[str, StopRules]] = {
    "switched off (stop_message.enabled)": ("x", StopRules(enabled=False)),
    "the text is longer than 4096 bytes": ("é" * 2049, RULES),
    "the text is longer than 3 bytes": ("abcd", StopRules(longest_bytes=3)),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_text_changes_nothing_and_is_reported_each_time(reason: str) -> None:
    text, rules = REFUSALS[reason]
    for _ in range(2):
        state, told = after(f'<**stopMessage:"{text}"**>', ARMED, rules=rules)
        assert state is ARMED
        assert told.reasons == (f"stopMessage: {reason}",)
        assert told.header() == f'ignored; reason="stopMessage: {reason}"'


def test_a_text_from_elsewhere_may_be_blank() -> None:
    """A file may hold nothing but white space, which the text of a directive cannot."""
    blank = (Found(SetStopMessage(" \n"), "<**…**>"),)
    state, told = apply_directives(ARMED, blank, RULES, DirectiveContext(NewestMessage(1), NOW))
    assert state is ARMED
    assert told.reasons == ("stopMessage: the text is empty",)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("<**!nobody**>", "!: no upstream is called 'nobody'"),
        ("<**stopMessage:<file://x>**>", "stopMessage: files are switched off"),
        ("<**clock:clear**>", "clock: another request changed this session"),
        ('<**clock:{"time":"x","message":"y"}**>', "clock: another request changed this"),
    ],
)
def test_what_does_nothing_says_why_and_leaves_nothing(text: str, reason: str) -> None:
    state, told = after(text)
    assert state == EMPTY
    assert told.header().startswith(f'ignored; reason="{reason}')


def test_the_same_directive_acts_once() -> None:
    state, _ = after("<**#a**>")
    again, told = after("<**#a**>", state, now=NOW + 1)
    assert again is state
    assert told == DirectiveReport(("unchanged",))


def test_it_acts_again_in_another_message_and_after_half_an_hour() -> None:
    state, _ = after("<**#a**>")
    for ordinal, now in ((2, NOW), (1, NOW + REMEMBERED_MS)):
        _, told = after("<**#a**>", state, ordinal=ordinal, now=now)
        assert told.effects == ("set",)


def test_seeing_it_again_is_written_down_only_now_and_then() -> None:
    state, _ = after("<**#a**>")
    soon, _ = after("<**#a**>", state, now=NOW + RENEW_MS - 1)
    assert soon is state
    later, told = after("<**#a**>", state, now=NOW + RENEW_MS)
    assert told.effects == ("unchanged",)
    assert list(later.seen.values()) == [NOW + RENEW_MS]


def test_clear_wins_over_a_set_of_the_same_message() -> None:
    setting, clearing = "<**stopMessage:x**>", "<**stopMessage:clear**>"
    for text in (setting + clearing, clearing + setting):
        state, told = after(text, ARMED)
        assert state.stop is None
        assert told.header() == "set"
    again, told = after(text, state)
    assert again is state
    assert told.effects == ("unchanged",) * 2


def test_clear_forgets_routing_too_and_what_follows_it_acts() -> None:
    routed, _ = after("<**!a**><**#b**>", ARMED)
    assert routed.routing == Routing(allow=("a",), exclude=(Target("b"),))
    assert clear_routing(routed) == replace(routed, routing=Routing())
    cleared, _ = after("<**clear**>", routed, ordinal=2)
    assert (cleared.stop, cleared.routing) == (None, Routing())
    rearmed, _ = after("<**clear**><**stopMessage:x**>", routed, ordinal=3)
    assert rearmed.stop is not None
    stopped, _ = after("<**stopMessage:clear**>", routed, ordinal=4)
    assert (stopped.stop, stopped.routing) == (None, routed.routing)


def test_a_route_for_one_request_leaves_nothing() -> None:
    state, told = after("<**a.m**>", ARMED)
    assert state == ARMED
    assert told == DirectiveReport(("set",))


def test_each_outcome_is_told_once_and_in_order() -> None:
    told = DirectiveReport(("set", "no", "set", "unchanged", "no", "never"))
    assert told.reasons == ("no", "never")
    assert told.header() == 'set, ignored; reason="no", unchanged, ignored; reason="never"'
    assert DirectiveReport().header() == ""


@pytest.mark.parametrize(
    "text, needs",
    [
        ("<**stopMessage:x**>", False),
        ("<**stopMessage:<file://x>**>", False),
        ("<**stopMessage:clear**>", False),
        ("<**a.m**>", False),
        ("<**!nobody**>", False),
        ("<**!a**>", True),
        ("<**!a.m**>", True),
        ("<**#a**>", True),
        ("<**@a**>", True),
        ("<**clear**>", True),
        ("<**clock:clear**>", True),
    ],
)
def test_what_needs_a_session(text: str, needs: bool) -> None:
    (item,) = found(text)
    assert needs_session(item) is needs


def test_using_it_up() -> None:
    state, uses = ARMED, []
    for moment in range(4):
        state, used = use_one(state, STOP, NOW + moment)
        uses.append(used)
    assert uses == [True, True, True, False]
    assert state.stop == replace(STOP, used=3, last_used_at_ms=NOW + 2)
    assert use_one(EMPTY, STOP, NOW) == (EMPTY, False)


def test_disarmed_it_stays_to_be_seen() -> None:
    state = disarm(ARMED, STOP)
    assert state.stop == replace(STOP, used=3)
    assert disarm(state, STOP) is state
    assert disarm(EMPTY, STOP) is EMPTY
    assert use_one(state, STOP, NOW)[1] is False
    assert clear_stop(state) == EMPTY


@pytest.mark.parametrize("other", [replace(STOP, text="x"), replace(STOP, updated_at_ms=NOW + 1)])
def test_one_that_was_set_meanwhile_is_another_one(other: StopMessage) -> None:
    """It is neither counted for what was sent before it, nor spent for what failed before it."""
    state = SessionState(other)
    assert use_one(state, STOP, NOW) == (state, False)
    assert disarm(state, STOP) is state


STOPS = st.builds(
    StopMessage,
    text=st.text(min_size=1),
    max_repeats=st.integers(1, 10**9),
    updated_at_ms=st.integers(0, 2**62),
    used=st.integers(0, 10**9),
    last_used_at_ms=st.none() | st.integers(0, 2**62),
)
NAMES = st.text(min_size=1, max_size=5)
ROUTINGS = st.builds(
    Routing,
    allow=st.lists(NAMES, max_size=3).map(tuple),
    prefer=st.none() | st.builds(Route, NAMES, NAMES),
    exclude=st.lists(st.builds(Target, NAMES, st.none() | NAMES), max_size=3).map(tuple),
)
KEPT = st.builds(
    KeptTurn,
    message=st.text().map(str.encode),
    dialect=NAMES,
    calls=st.lists(NAMES, max_size=2).map(tuple),
    results=st.lists(st.builds(ToolResult, NAMES, st.text()), max_size=2).map(tuple),
    at_ms=st.integers(0, 2**62),
)
SENT = st.builds(
    SentMessage,
    fingerprint=NAMES,
    sent_at_ms=st.integers(0, 2**62),
    request_id=st.text(),
    idempotency_hash=st.text(),
    ended=st.booleans(),
)
STATES = st.builds(
    SessionState,
    stop=st.none() | STOPS,
    routing=ROUTINGS,
    seen=st.dictionaries(NAMES, st.integers(0, 2**62), max_size=3),
    sent=st.lists(SENT, max_size=2).map(tuple),
    kept=st.lists(KEPT, max_size=2).map(tuple),
)


@given(STATES)
def test_a_document_there_and_back(state: SessionState) -> None:
    written = msgspec.json.encode(encode_state(state))
    assert decode_state(msgspec.json.decode(written)) == state


def test_nothing_is_written_of_nothing() -> None:
    assert encode_state(EMPTY) == {}
    assert decode_state({}) == EMPTY
    assert decode_state({"version": 1, "owner": "local", "unknown": 1}) == EMPTY


def test_the_fields_have_their_names() -> None:
    used, _ = use_one(ARMED, STOP, NOW + 1)
    assert encode_state(used) == {
        "stopMessageText": "go on",
        "stopMessageMaxRepeats": 3,
        "stopMessageUsed": 1,
        "stopMessageUpdatedAt": NOW,
        "stopMessageLastUsedAt": NOW + 1,
    }
    assert encode_state(clear_stop(used)) == {}


GOOD: dict[str, Any] = {
    **encode_state(SessionState(replace(STOP, last_used_at_ms=NOW))),
    "routing": {"allow": ["a"], "prefer": ["a", "m"], "exclude": [["b", None]]},
    "directives": {"x": NOW},
}
BAD: list[tuple[str, Any]] = [
    ("stopMessageText", None),
    ("stopMessageText", ["x"]),
    ("stopMessageMaxRepeats", "3"),
    ("stopMessageUsed", -1),
    ("stopMessageUsed", True),
    ("stopMessageUpdatedAt", 1.5),
    ("stopMessageLastUsedAt", "now"),
    ("routing", []),
    ("routing", "a"),
    ("routing", {}),
    ("routing", {"allow": [1], "prefer": None, "exclude": []}),
    ("routing", {"allow": 1, "prefer": None, "exclude": []}),
    ("routing", {"allow": [], "prefer": ["a"], "exclude": []}),
    ("routing", {"allow": [], "prefer": ["a", None], "exclude": []}),
    ("routing", {"allow": [], "prefer": None, "exclude": [["a"]]}),
    ("routing", {"allow": [], "prefer": None, "exclude": [[None, None]]}),
    ("routing", {"allow": [], "prefer": None, "exclude": [7]}),
    ("directives", []),
    ("directives", None),
    ("directives", "x"),
    ("directives", {"x": "now"}),
    ("directiveMessages", None),
    ("directiveMessages", {"x": 1}),
    ("directiveMessages", [{"fingerprint": "x"}]),
    ("directiveMessages", [{"fingerprint": "x", "sentAtMs": "now"}]),
]


@pytest.mark.parametrize("name, value", BAD)
def test_a_document_that_is_none_is_an_error_of_lookup_type_or_value(name: str, value: Any) -> None:
    assert decode_state(GOOD).stop is not None
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode_state({**GOOD, name: value})


def test_a_document_with_a_field_missing() -> None:
    for name in ("stopMessageMaxRepeats", "stopMessageUsed", "stopMessageUpdatedAt"):
        with pytest.raises(LookupError):
            decode_state({key: value for key, value in GOOD.items() if key != name})


# The stop message in the machine: what a session says goes in with the end of a turn.

A, B = Route("a", "m"), Route("b", "m")
DOWN = UpstreamUnreachable("It is down.")
BAD_REQUEST = UpstreamAnswered(400, (), b"{}")
SAID = (UserText("go on"),)


def ended(said: str = "x", repeat: str | None = "go on", **turn: Any) -> TurnFinished:
    return TurnFinished(TurnEnd(turn.pop("stop", Stop.STOP), **turn), repeat, said)


def play(*outcomes: Outcome, routes: tuple[Route, ...] = (A,)) -> list[object]:
    exchange = Exchange(routes)
    return [exchange.open_turn(), *(exchange.handle(outcome) for outcome in outcomes)]


def test_a_stop_is_followed_up() -> None:
    effects = play(TurnOpened(), ended("one"), TurnOpened(), ended("two"), TurnOpened())
    assert effects[2] == OpenTurn(2, A, SAID, "stop_followup")
    assert effects[4] == OpenTurn(3, A, SAID, "stop_followup.2")


@pytest.mark.parametrize(
    "end",
    [
        ended(repeat=None),
        ended(stop=Stop.LENGTH),
        ended(stop=Stop.FILTER),
        ended(stop=Stop.TOOL_CALLS, client_calls=True),
        ended(client_calls=True),
        ended(continuable=False),
    ],
)
def test_anything_else_is_not(end: TurnFinished) -> None:
    assert play(TurnOpened(), end)[-1] == Close(neutral_finish=False)


def test_an_empty_follow_up_spends_it() -> None:
    first = ended("", spoke=False)
    effects = play(TurnOpened(), first, TurnOpened(), ended("", spoke=False))
    assert isinstance(effects[2], OpenTurn)
    assert effects[-1] == Close(neutral_finish=False, disarm="the follow-up was empty")


def test_the_same_answer_again_and_again_spends_it() -> None:
    turns = (TurnOpened(), ended("same")) * SAME_ANSWERS
    effects = play(*turns)
    assert effects[-1] == Close(
        neutral_finish=False, disarm=f"the answer was the same {SAME_ANSWERS} times in a row"
    )
    assert sum(isinstance(effect, OpenTurn) for effect in effects) == SAME_ANSWERS


@pytest.mark.parametrize("error", [DOWN, BAD_REQUEST])
def test_a_failed_follow_up_is_tried_once_more_and_then_spends_it(
    error: UpstreamUnreachable | UpstreamAnswered,
) -> None:
    failed = OpeningFailed(error)
    effects = play(TurnOpened(), ended(), failed, failed)
    assert effects[2] == effects[3] == OpenTurn(2, A, SAID, "stop_followup")
    assert effects[-1] == Close(neutral_finish=False, disarm="the follow-up failed")


def test_each_follow_up_has_its_second_try() -> None:
    failed = OpeningFailed(DOWN)
    again = (ended("one"), failed, TurnOpened(), ended("two"), failed, TurnOpened())
    effects = play(TurnOpened(), *again, ended("three", repeat=None))
    assert effects[-1] == Close(neutral_finish=False)


def test_with_other_routes_it_fails_over_and_still_has_one_more_try() -> None:
    failed = OpeningFailed(DOWN)
    effects = play(TurnOpened(), ended(), failed, failed, failed, routes=(A, B))
    asked = [effect.route for effect in effects if isinstance(effect, OpenTurn)]
    assert asked == [A, A, B, A]
    assert effects[-1] == Close(neutral_finish=False, disarm="the follow-up failed")


def test_a_gateway_that_has_to_go_spends_nothing() -> None:
    effects = play(TurnOpened(), ended(), OpeningFailed(Draining("Bye.")))
    assert effects[-1] == Close(neutral_finish=False, reason="the follow-up failed")


def test_whether_it_would_be_sent_is_judged_before_it_is_counted() -> None:
    exchange = Exchange((A,))
    exchange.open_turn()
    exchange.handle(TurnOpened())
    for _ in range(2):
        assert exchange.would_repeat(ended())
    assert not exchange.would_repeat(ended(repeat=None))
    assert not exchange.would_repeat(ended(stop=Stop.LENGTH))
    assert not exchange.repeats
    exchange.handle(ended())
    assert exchange.repeats
