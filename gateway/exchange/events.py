"""What happened: the inputs of the exchange machine, and the verdicts it reaches.

The runner posts outcomes. Three of them leave something to judge: a failed opening becomes
`RouteFailed`, `RoutesExhausted` or `FollowUpLost`, the end of a turn becomes a verdict, and what a
cut means depends on where the exchange is.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gateway.errors import HoldgateError
from gateway.exchange.additions import Addition, ToolResult
from gateway.exchange.model import Route, ToolCall, TurnEnd


class TurnOpened(msgspec.Struct, frozen=True, gc=False):
    """The first frame of a turn is in."""


class OpeningFailed(msgspec.Struct, frozen=True, gc=False):
    """A route did not give a first frame."""

    error: HoldgateError


class RouteFailed(msgspec.Struct, frozen=True, gc=False):
    """A route did not give a first frame; to the machine it also means that a try is left."""

    error: HoldgateError
    route: Route | None = None
    """Which one, for observers."""


class RoutesExhausted(msgspec.Struct, frozen=True, gc=False):
    """No route gave a first frame of the first turn: the answer is an error."""

    error: HoldgateError


class FollowUpLost(msgspec.Struct, frozen=True, gc=False):
    """No route gave a first frame of a follow-up: the answer ends with the turn before it."""

    error: HoldgateError


class Wait(msgspec.Struct, frozen=True, gc=False):
    """When a reminder of the session is ready, in how long that is, and how long may be held."""

    at_ms: int
    in_ms: int
    most_ms: int


class TurnFinished(msgspec.Struct, frozen=True, gc=False):
    """The terminal frame of a turn is in; `repeat` is the text the session would go on with."""

    turn: TurnEnd
    repeat: str | None = None
    said: str = ""
    wait: Wait | None = None


class StreamBroke(msgspec.Struct, frozen=True, gc=False):
    """A turn that had begun cannot be finished."""

    error: HoldgateError


class ToolsReturned(msgspec.Struct, frozen=True, gc=False):
    """Server tools have run, and the model is told."""

    results: tuple[ToolResult, ...]
    suffix: str = "tool_followup"


class ToolsKept(msgspec.Struct, frozen=True, gc=False):
    """Server tools have run, and the results wait for the client's own tools.

    Cut short, they may have been all that was called: then nobody saw a call to wait for.
    """

    neutral_finish: bool = False


HOLD_FOLLOW_UP = "clock_hold_followup"


class ReminderDue(msgspec.Struct, frozen=True, gc=False):
    """What was held for is here; it is put into the follow-up when that is sent."""

    is_result: bool = False
    """Whether it is only the result of a job."""


class HoldEnded(msgspec.Struct, frozen=True, gc=False):
    """There is nothing to hold for any more."""

    reason: str


class Saved(msgspec.Struct, frozen=True, gc=False):
    """What must outlive the exchange is stored, and its tail was sent."""


class ClientGone(msgspec.Struct, frozen=True, gc=False):
    """The client left before the end."""


class Crashed(msgspec.Struct, frozen=True, gc=False):
    """A fault of ours ended the exchange."""

    error: HoldgateError


class Cut(msgspec.Struct, frozen=True, gc=False):
    """The exchange is ended from outside: the gateway shuts down, or the session was deleted."""

    error: HoldgateError


class CloseReason(StrEnum):
    """What cuts an answer short that was to go on; the text is for people."""

    FOLLOW_UP_FAILED = "the follow-up failed"
    FOLLOW_UP_EMPTY = "the follow-up was empty"
    SAME_ANSWERS = "the answer was the same 5 times in a row"


class CallTools(msgspec.Struct, frozen=True, gc=False):
    """Verdict: run these server tools; `keep` their results when client tools were called too."""

    calls: tuple[ToolCall, ...]
    keep: bool = False


class Continue(msgspec.Struct, frozen=True, gc=False):
    """Verdict: go on by itself, with a follow-up."""

    additions: tuple[Addition, ...]
    suffix: str


class WaitUntil(msgspec.Struct, frozen=True, gc=False):
    """Verdict: hold the answer open until this instant, in UTC milliseconds, at most so long."""

    at_ms: int
    most_ms: int


class Finish(msgspec.Struct, frozen=True, gc=False):
    """Verdict: the answer is complete; `neutral_finish` when its reason names a call nobody saw."""

    neutral_finish: bool = False
    disarm: str = ""
    """Why the session's stop message is spent now, if it is."""


Verdict = CallTools | Continue | WaitUntil | Finish
Judged = RouteFailed | RoutesExhausted | FollowUpLost | Verdict
Outcome = (
    TurnOpened
    | OpeningFailed
    | TurnFinished
    | StreamBroke
    | ToolsReturned
    | ToolsKept
    | ReminderDue
    | HoldEnded
    | Saved
    | ClientGone
    | Crashed
    | Cut
)
Event = Outcome | Judged
