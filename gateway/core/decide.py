"""The verdict at the end of a turn: small rules in order, the first answer wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.events import CallTools, Finish, Verdict
from gateway.core.model import TurnEnd


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a verdict may depend on."""

    turn: TurnEnd
    number: int
    tool_turns_left: int


Rule = Callable[[Facts], Verdict | None]


def nothing_can_follow(facts: Facts) -> Verdict | None:
    """A turn that a follow-up cannot be joined to ends the answer as it is."""
    return None if facts.turn.continuable else Finish()


def out_of_turns(facts: Facts) -> Verdict | None:
    """A model that calls server tools without end is stopped, and the answer ends plainly."""
    if facts.turn.server_calls and facts.tool_turns_left <= 0:
        return Finish(plainly=not facts.turn.client_calls)
    return None


def server_tools(facts: Facts) -> Verdict | None:
    """Calls to our own tools are run; beside client tools their results are kept for later."""
    if not facts.turn.server_calls:
        return None
    return CallTools(facts.turn.server_calls, keep=facts.turn.client_calls)


def client_tools(facts: Facts) -> Verdict | None:
    """Calls to the client's tools are the client's to answer."""
    return Finish() if facts.turn.client_calls else None


# The order is the specification; stopMessage and the clock's hold come after the client's tools.
RULES: tuple[Rule, ...] = (nothing_can_follow, out_of_turns, server_tools, client_tools)


def verdict(facts: Facts, rules: tuple[Rule, ...] = RULES) -> Verdict:
    """Judge the end of a turn."""
    return next((found for rule in rules if (found := rule(facts))), Finish())
