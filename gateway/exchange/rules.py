"""The verdict at the end of a turn: small rules in order, the first answer wins."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.exchange.additions import UserText
from gateway.exchange.events import (
    CallTools,
    CloseReason,
    Continue,
    Finish,
    Verdict,
    Wait,
    WaitUntil,
)
from gateway.exchange.model import Stop, TurnEnd

STOP_FOLLOW_UP = "stop_followup"
SAME_ANSWERS = 5
FINISH = Finish()


class Facts(msgspec.Struct, frozen=True, gc=False):
    """All that a verdict may depend on."""

    turn: TurnEnd
    number: int
    tool_turns_left: int
    repeat: str | None = None
    """What the session's stop message says, if it may be sent once more."""
    repeated: bool = False
    """Whether this turn answered a stop message."""
    same_answers: int = 1
    """How many answers in a row, this one included, said the same."""
    wait: Wait | None = None
    """For which reminder the answer could be held open."""


Rule = Callable[[Facts], Verdict | None]


def nothing_can_follow(facts: Facts) -> Verdict | None:
    """A turn that a follow-up cannot be joined to ends the answer as it is."""
    return None if facts.turn.continuable else Finish()


def out_of_turns(facts: Facts) -> Verdict | None:
    """A model that calls server tools without end is stopped, and the answer ends plainly."""
    if facts.turn.server_calls and facts.tool_turns_left <= 0:
        return Finish(neutral_finish=not facts.turn.client_calls)
    return None


def server_tools(facts: Facts) -> Verdict | None:
    """Calls to our own tools are run; beside client tools their results are kept for later."""
    if not facts.turn.server_calls:
        return None
    return CallTools(facts.turn.server_calls, keep=facts.turn.client_calls)


def client_tools(facts: Facts) -> Verdict | None:
    """Calls to the client's tools are the client's to answer."""
    return Finish() if facts.turn.client_calls else None


def stop_message(facts: Facts) -> Verdict | None:
    """A session that carries a stop message goes on by itself, unless it gets nowhere."""
    if facts.repeat is None or facts.turn.stop is not Stop.STOP:
        return None
    if facts.repeated and not facts.turn.spoke:
        return Finish(disarm=CloseReason.FOLLOW_UP_EMPTY)
    if facts.same_answers >= SAME_ANSWERS:
        return Finish(disarm=CloseReason.SAME_ANSWERS)
    return Continue((UserText(facts.repeat),), STOP_FOLLOW_UP)


def clock_hold(facts: Facts) -> Verdict | None:
    """A reminder that is ready soon enough keeps the answer open; else it is not even begun."""
    wait = facts.wait
    if wait is None or facts.turn.stop not in (Stop.STOP, Stop.LENGTH):
        return None
    return WaitUntil(wait.at_ms, wait.most_ms) if wait.in_ms <= wait.most_ms else None


# The order is the specification.
RULES: tuple[Rule, ...] = (
    nothing_can_follow,
    out_of_turns,
    server_tools,
    client_tools,
    stop_message,
    clock_hold,
)


def can_only_finish(turn: TurnEnd, repeat: str | None, wait: Wait | None) -> bool:
    """Whether no rule has anything else to say: nothing was called, and nothing can follow.

    The fast twin of `verdict`, for nearly all turns: it saves the facts and six calls
    (test_exchange.py).
    """
    return not (turn.server_calls or turn.client_calls) and repeat is None and wait is None


def verdict(facts: Facts, rules: tuple[Rule, ...] = RULES) -> Verdict:
    """Judge the end of a turn."""
    for rule in rules:
        if found := rule(facts):
            return found
    return FINISH
