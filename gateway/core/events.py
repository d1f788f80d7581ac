"""What happened: the inputs of the exchange machine, and the verdicts it reaches.

The driver posts outcomes. Two of them leave something to judge: a failed opening becomes
`RouteFailed`, `RoutesExhausted` or `FollowUpLost`, the end of a turn becomes a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.additions import Addition, ToolResult
from gateway.core.model import ToolCall, TurnEnd
from gateway.errors import HoldgateError


@dataclass(frozen=True, slots=True)
class TurnOpened:
    """The first frame of a turn is in."""


@dataclass(frozen=True, slots=True)
class OpeningFailed:
    """A route did not give a first frame."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class RouteFailed:
    """It did not, and another route is left."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class RoutesExhausted:
    """It did not, and nothing was shown of this answer yet."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class FollowUpLost:
    """It did not, but the turn before it stands."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The terminal frame of a turn is in; `repeat` is the text the session would go on with."""

    turn: TurnEnd
    repeat: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class StreamBroke:
    """A turn that had begun cannot be finished."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class ToolsReturned:
    """Server tools have run, and the model is told."""

    results: tuple[ToolResult, ...]
    suffix: str = "tool_followup"


@dataclass(frozen=True, slots=True)
class ToolsKept:
    """Server tools have run, and the results wait for the client's own tools."""


@dataclass(frozen=True, slots=True)
class ReminderDue:
    """What was held for is here."""

    additions: tuple[Addition, ...]


@dataclass(frozen=True, slots=True)
class HoldEnded:
    """There is nothing to hold for any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What must outlive the exchange is stored, and its tail was sent."""


@dataclass(frozen=True, slots=True)
class ClientGone:
    """The client left before the end."""


@dataclass(frozen=True, slots=True)
class CallTools:
    """Verdict: run these server tools; `keep` their results when client tools were called too."""

    calls: tuple[ToolCall, ...]
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Continue:
    """Verdict: go on by itself, with a follow-up."""

    additions: tuple[Addition, ...]
    suffix: str


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Verdict: hold the answer open until this instant, in UTC milliseconds."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Verdict: the answer is complete; `plainly` when its reason names a call nobody saw."""

    plainly: bool = False
    disarm: str = ""
    """Why the session's stop message is spent now, if it is."""


Verdict = CallTools | Continue | WaitUntil | Finish
Judged = RouteFailed | RoutesExhausted | FollowUpLost | Verdict
Outcome = (
    TurnOpened
    | OpeningFailed
    | TurnEnded
    | StreamBroke
    | ToolsReturned
    | ToolsKept
    | ReminderDue
    | HoldEnded
    | Saved
    | ClientGone
)
Event = Outcome | Judged
