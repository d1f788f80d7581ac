"""The machine as plays: what happened goes in, what to do comes out."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Draining, UpstreamAnswered, UpstreamUnreachable
from gateway.exchange.additions import ToolResult, UserText
from gateway.exchange.effects import Close, Hold, LetGo, OpenTurn, RelayTurn, RunTools, ShowError
from gateway.exchange.events import (
    CallTools,
    ClientGone,
    Continue,
    Crashed,
    Cut,
    Finish,
    HoldEnded,
    OpeningFailed,
    Outcome,
    ReminderDue,
    Saved,
    StreamBroke,
    ToolsKept,
    ToolsReturned,
    TurnFinished,
    TurnOpened,
    Verdict,
    Wait,
    WaitUntil,
)
from gateway.exchange.machine import (
    MOVES,
    ON_ENTRY,
    Exchange,
    IllegalEvent,
    State,
    diagram,
)
from gateway.exchange.model import Route, Stop, ToolCall, TurnEnd, Usage
from gateway.exchange.rules import RULES, Facts, verdict

A, B, C = Route("a", "m"), Route("b", "m"), Route("c", "m")
DOWN = UpstreamUnreachable("It is down.")
BAD = UpstreamAnswered(400, (), b"{}")
STOPPED = TurnFinished(TurnEnd(Stop.STOP))
CALL = ToolCall("call_1", "clock", "{}")
CALLED = TurnFinished(TurnEnd(Stop.TOOL_CALLS, server_calls=(CALL,)))
MIXED = TurnFinished(TurnEnd(Stop.TOOL_CALLS, server_calls=(CALL,), client_calls=True))
RESULTS = ToolsReturned((ToolResult("call_1", "noon"),), "clock_followup")


def go_on_twice(facts: Facts) -> Verdict | None:
    """A made-up rule: the first two stops are followed up."""
    return Continue((UserText("go on"),), "test_followup") if facts.number < 3 else None


def wait_once(facts: Facts) -> Verdict | None:
    """A made-up rule: the first stop is held."""
    return WaitUntil(1000, 60) if facts.number == 1 else None


def play(exchange: Exchange, *outcomes: Outcome) -> list[object]:
    effects: list[object] = [exchange.open_turn()]
    effects += [exchange.handle(outcome) for outcome in outcomes]
    return effects


def test_one_turn() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), STOPPED, Saved())
    assert effects == [OpenTurn(1, A), RelayTurn(), Close(neutral_finish=False), None]
    assert exchange.state is State.DONE
    assert repr(exchange) == "<Exchange turn 1 done>"


@given(st.sampled_from(Stop), st.booleans(), st.booleans(), st.integers(0, 3), st.booleans())
def test_of_a_plain_turn_no_rule_has_anything_to_say(
    stop: Stop, spoke: bool, continuable: bool, tool_turns_left: int, repeated: bool
) -> None:
    turn = TurnEnd(stop, spoke=spoke, continuable=continuable)
    facts = Facts(turn, 1, tool_turns_left, repeated=repeated)
    assert verdict(facts) == Exchange((A,)).verdict_on(TurnFinished(turn)) == Finish()


def test_the_next_route_is_asked_when_one_fails() -> None:
    exchange = Exchange((A, B, C))
    assert exchange.has_other_routes
    assert not Exchange((A,)).has_other_routes
    failed = OpeningFailed(DOWN)
    effects = play(exchange, failed, failed, TurnOpened())
    assert effects == [OpenTurn(1, A), OpenTurn(1, B), OpenTurn(1, C), RelayTurn()]


def test_the_last_failure_is_shown() -> None:
    exchange = Exchange((A, B))
    last = UpstreamUnreachable("It is down too.")
    effects = play(exchange, OpeningFailed(DOWN), OpeningFailed(last))
    assert effects[-1] == ShowError(last)
    assert exchange.state is State.FAILED


def test_a_bad_request_is_not_tried_elsewhere() -> None:
    exchange = Exchange((A, B))
    assert play(exchange, OpeningFailed(BAD))[-1] == ShowError(BAD)


def test_follow_ups_stay_with_whoever_answered_and_never_repeat_a_suffix() -> None:
    exchange = Exchange((A, B), (go_on_twice,))
    said = (UserText("go on"),)
    effects = play(
        exchange,
        OpeningFailed(DOWN),
        TurnOpened(),
        STOPPED,
        TurnOpened(),
        STOPPED,
        TurnOpened(),
        STOPPED,
    )
    assert [e for e in effects if isinstance(e, OpenTurn)] == [
        OpenTurn(1, A),
        OpenTurn(1, B),
        OpenTurn(2, B, said, "test_followup"),
        OpenTurn(3, B, said, "test_followup.2"),
    ]
    assert effects[-1] == Close(neutral_finish=False)


def test_a_follow_up_may_fail_over() -> None:
    exchange = Exchange((A, B), (go_on_twice,))
    effects = play(exchange, TurnOpened(), STOPPED, OpeningFailed(DOWN))
    assert effects[-1] == OpenTurn(2, B, (UserText("go on"),), "test_followup")


def test_a_lost_follow_up_leaves_the_answer_as_it_stands() -> None:
    exchange = Exchange((A,), (go_on_twice,))
    effects = play(exchange, TurnOpened(), STOPPED, OpeningFailed(DOWN), Saved())
    assert effects[-2:] == [Close(neutral_finish=False, reason="the follow-up failed"), None]
    assert exchange.state is State.DONE


def test_lost_after_tools_it_ends_plainly_for_nobody_saw_the_call() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), CALLED, RESULTS, OpeningFailed(DOWN))
    assert effects[-1] == Close(neutral_finish=True, reason="the follow-up failed")


def test_tools_that_are_cut_short_end_the_answer_plainly() -> None:
    exchange = Exchange((A,))
    assert play(exchange, TurnOpened(), CALLED, ToolsKept(neutral_finish=True))[-1] == Close(
        neutral_finish=True
    )


LEAVING = Draining("The gateway is shutting down.", retry_after=1)
HELD = TurnFinished(TurnEnd(Stop.STOP), wait=Wait(1000, 0, 60))


@pytest.mark.parametrize(
    ("before", "effect", "state"),
    [
        ((), ShowError(LEAVING), State.FAILED),
        ((TurnOpened(),), ShowError(LEAVING), State.FAILED),
        ((TurnOpened(), CALLED), Close(neutral_finish=True), State.CLOSING),
        ((TurnOpened(), MIXED), Close(neutral_finish=False), State.CLOSING),
        (
            (TurnOpened(), CALLED, RESULTS),
            Close(neutral_finish=True, reason="the follow-up failed"),
            State.CLOSING,
        ),
        ((TurnOpened(), HELD), Close(neutral_finish=False, reason="draining"), State.CLOSING),
        ((TurnOpened(), STOPPED), None, State.DONE),
    ],
)
def test_what_a_cut_means_depends_on_where_the_exchange_is(
    before: tuple[Outcome, ...], effect: object, state: State
) -> None:
    exchange = Exchange((A, B))
    assert play(exchange, *before, Cut(LEAVING))[-1] == effect
    assert exchange.state is state


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("in_ms, holds", [(-5, True), (0, True), (60, True), (61, False)])
def test_an_answer_is_held_only_for_what_is_ready_soon_enough(
    stop: Stop, in_ms: int, holds: bool
) -> None:
    exchange = Exchange((A,))
    ended = TurnFinished(TurnEnd(stop), wait=Wait(1000, in_ms, 60))
    effect = play(exchange, TurnOpened(), ended)[-1]
    holds = holds and stop in (Stop.STOP, Stop.LENGTH)
    assert effect == (Hold(1000, 60) if holds else Close(neutral_finish=False))


def test_the_stop_message_goes_before_the_hold() -> None:
    exchange = Exchange((A,))
    wait = Wait(1000, 0, 60)
    armed = TurnFinished(ARMED.turn, ARMED.repeat, wait=wait)
    first, second = play(exchange, TurnOpened(), armed)[-1], None
    assert isinstance(first, OpenTurn)
    second = play(exchange, TurnOpened(), TurnFinished(STOPPED.turn, wait=wait))[-1]
    assert second == Hold(1000, 60)


def test_only_follow_ups_of_due_reminders_wait_for_each_other() -> None:
    exchange = Exchange((A,))
    wait = TurnFinished(STOPPED.turn, wait=Wait(1000, 0, 60))
    effects = play(exchange, TurnOpened(), wait, ReminderDue())
    assert effects[-1] == OpenTurn(2, A, (), "clock_hold_followup", True)
    effects = play(exchange, TurnOpened(), CALLED, RESULTS)
    assert effects[-1] == OpenTurn(3, A, RESULTS.results, "clock_followup", False)


def test_server_tools_run_and_the_model_is_told() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), CALLED, RESULTS, TurnOpened(), STOPPED)
    assert effects[2:4] == [
        RunTools((CALL,), keep=False),
        OpenTurn(2, A, RESULTS.results, "clock_followup"),
    ]
    assert effects[-1] == Close(neutral_finish=False)


def test_beside_client_tools_the_results_are_kept() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), MIXED, ToolsKept())
    assert effects[-2:] == [RunTools((CALL,), keep=True), Close(neutral_finish=False)]


def test_a_model_that_only_calls_tools_is_stopped() -> None:
    exchange = Exchange((A,), tool_turns=2)
    effects = play(exchange, *(TurnOpened(), CALLED, RESULTS) * 2, TurnOpened(), CALLED)
    assert effects[-1] == Close(neutral_finish=True)


def test_tool_turns_count_anew_after_a_stop() -> None:
    rules = (*RULES, go_on_twice)
    exchange = Exchange((A,), rules, tool_turns=1)
    once = (TurnOpened(), CALLED, RESULTS)
    play(exchange, *once, TurnOpened(), STOPPED, *once)
    assert exchange.state is State.OPENING


def test_a_hold_ends_in_a_follow_up_or_in_the_tail() -> None:
    held = Exchange((A,), (wait_once,))
    effects = play(held, TurnOpened(), STOPPED, ReminderDue())
    assert effects[-2:] == [Hold(1000, 60), OpenTurn(2, A, (), "clock_hold_followup", True)]
    ended = Exchange((A,), (wait_once,))
    assert play(ended, TurnOpened(), STOPPED, HoldEnded("cancelled"))[-1] == Close(
        neutral_finish=False, reason="cancelled"
    )


def test_a_broken_stream_is_said() -> None:
    exchange = Exchange((A, B))
    assert play(exchange, TurnOpened(), StreamBroke(DOWN))[-1] == ShowError(DOWN)


def test_leaving_while_the_end_is_saved_is_normal() -> None:
    exchange = Exchange((A,))
    play(exchange, TurnOpened(), STOPPED, ClientGone())
    assert exchange.state is State.DONE


WAYS_INTO: dict[State, tuple[Outcome, ...]] = {
    State.OPENING: (),
    State.RELAYING: (TurnOpened(),),
    State.TOOLING: (TurnOpened(), CALLED),
    State.HOLDING: (TurnOpened(), TurnFinished(STOPPED.turn, wait=Wait(2, 1, 9))),
    State.CLOSING: (TurnOpened(), STOPPED),
}


def brought_into(state: State) -> Exchange:
    exchange = Exchange((A,))
    play(exchange, *WAYS_INTO[state])
    assert exchange.state is state
    return exchange


@pytest.mark.parametrize("state", [state for state, moves in MOVES.items() if moves])
def test_every_live_state_handles_a_leaving_client(state: State) -> None:
    exchange = brought_into(state)
    effect = exchange.handle(ClientGone())
    assert effect in (LetGo(), None)
    assert exchange.state in (State.GONE, State.DONE)


@pytest.mark.parametrize("state", [state for state, moves in MOVES.items() if moves])
def test_a_fault_of_ours_is_an_event_in_every_live_state(state: State) -> None:
    exchange = brought_into(state)
    assert exchange.handle(Crashed(DOWN)) is None
    assert exchange.state is State.FAILED


def test_only_the_table_moves_an_exchange() -> None:
    with pytest.raises(AttributeError):
        Exchange((A,)).state = State.DONE  # type: ignore[misc]


def test_every_state_is_reachable_and_has_an_entry() -> None:
    reached, frontier = set(), {State.OPENING}
    while frontier:
        reached |= frontier
        frontier = {t for s in frontier for t in MOVES[s].values()} - reached
    assert reached == set(State) == set(MOVES) == set(ON_ENTRY)


def test_an_event_without_a_row_is_our_bug() -> None:
    with pytest.raises(
        IllegalEvent, match="Saved can not happen while an exchange is opening"
    ) as it:
        Exchange((A,)).handle(Saved())
    assert (it.value.state, it.value.event) == (State.OPENING, Saved())


def test_the_diagram_in_the_docs_is_the_table() -> None:
    text = Path(__file__).parents[2].joinpath("docs/concepts.md").read_text()
    drawn = re.findall(r"```mermaid\n(stateDiagram.*?)```", text, re.DOTALL)
    assert drawn == [diagram()]


@pytest.mark.parametrize(
    "turn, left, expected",
    [
        (TurnEnd(Stop.STOP), 16, Finish()),
        (TurnEnd(Stop.LENGTH), 16, Finish()),
        (TurnEnd(Stop.TOOL_CALLS, client_calls=True), 16, Finish()),
        (TurnEnd(Stop.TOOL_CALLS, (CALL,)), 16, CallTools((CALL,))),
        (TurnEnd(Stop.TOOL_CALLS, (CALL,), client_calls=True), 16, CallTools((CALL,), keep=True)),
        (TurnEnd(Stop.TOOL_CALLS, (CALL,)), 0, Finish(neutral_finish=True)),
        (TurnEnd(Stop.TOOL_CALLS, (CALL,), client_calls=True), 0, Finish()),
        (TurnEnd(Stop.TOOL_CALLS, (CALL,), continuable=False), 16, Finish()),
    ],
)
def test_verdicts(turn: TurnEnd, left: int, expected: Verdict) -> None:
    assert verdict(Facts(turn, 1, left)) == expected


ARMED = TurnFinished(TurnEnd(Stop.STOP), repeat="go on", said="done")
FOLLOW_UP = (UserText("go on"),)


def test_a_stop_message_is_sent_and_its_turns_are_numbered() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), ARMED, TurnOpened(), ARMED, TurnOpened(), STOPPED)
    assert [e for e in effects if isinstance(e, OpenTurn)][1:] == [
        OpenTurn(2, A, FOLLOW_UP, "stop_followup"),
        OpenTurn(3, A, FOLLOW_UP, "stop_followup.2"),
    ]
    assert effects[-1] == Close(neutral_finish=False)


def test_what_would_be_sent_is_known_before_it_is_counted() -> None:
    exchange = Exchange((A,))
    play(exchange, TurnOpened())
    assert exchange.would_repeat(ARMED)
    assert not exchange.would_repeat(STOPPED)
    assert not exchange.would_repeat(CALLED)
    assert exchange.state is State.RELAYING


def test_a_stop_follow_up_that_fails_is_tried_once_more_and_then_disarmed() -> None:
    exchange = Exchange((A, B))
    failed = OpeningFailed(DOWN)
    effects = play(exchange, TurnOpened(), ARMED, failed, failed, failed)
    routes = [e.route for e in effects if isinstance(e, OpenTurn)]
    assert routes == [A, A, B, A]
    assert effects[-1] == Close(neutral_finish=False, disarm="the follow-up failed")


def test_each_stop_follow_up_has_its_own_second_try() -> None:
    exchange = Exchange((A,))
    failed = OpeningFailed(DOWN)
    effects = play(exchange, TurnOpened(), ARMED, failed, TurnOpened(), ARMED, failed)
    assert effects[-1] == OpenTurn(3, A, FOLLOW_UP, "stop_followup.2")


def test_a_drain_gives_no_second_try_and_disarms_nothing() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), ARMED, OpeningFailed(Draining("Leaving.")))
    assert effects[-1] == Close(neutral_finish=False, reason="the follow-up failed")


def test_an_empty_follow_up_ends_it() -> None:
    empty = TurnFinished(TurnEnd(Stop.STOP, spoke=False), repeat="go on")
    exchange = Exchange((A,))
    effects = play(exchange, TurnOpened(), ARMED, TurnOpened(), empty)
    assert effects[-1] == Close(neutral_finish=False, disarm="the follow-up was empty")


def test_five_same_answers_end_it() -> None:
    exchange = Exchange((A,))
    effects = play(exchange, *(TurnOpened(), ARMED) * 5)
    assert effects[-1] == Close(
        neutral_finish=False, disarm="the answer was the same 5 times in a row"
    )
    different = TurnFinished(TurnEnd(Stop.STOP), repeat="go on", said="other")
    other = Exchange((A,))
    play(other, *(TurnOpened(), ARMED) * 4, TurnOpened(), different)
    assert other.state is State.OPENING


@pytest.mark.parametrize("stop", [Stop.LENGTH, Stop.FILTER, Stop.UNKNOWN])
def test_only_a_stop_is_followed_up(stop: Stop) -> None:
    exchange = Exchange((A,))
    ended = TurnFinished(TurnEnd(stop), repeat="go on", said="x")
    assert play(exchange, TurnOpened(), ended)[-1] == Close(neutral_finish=False)


def test_values_say_what_they_are() -> None:
    assert str(A) == "a/m"
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)
