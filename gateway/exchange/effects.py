"""What to do: the outputs of the exchange machine, performed one at a time by the runner."""

from __future__ import annotations

import msgspec

from gateway.errors import HoldgateError
from gateway.exchange.additions import Addition
from gateway.exchange.model import Route, ToolCall


class OpenTurn(msgspec.Struct, frozen=True, gc=False):
    """Ask this route. A follow-up adds to what was asked before, and has a suffix to its id."""

    number: int
    route: Route
    additions: tuple[Addition, ...] = ()
    suffix: str = ""
    waits_its_turn: bool = False
    """Whether many others may be opened in the same instant: all that was due then."""


class RelayTurn(msgspec.Struct, frozen=True, gc=False):
    """Pass the turn's frames on until its end."""


class RunTools(msgspec.Struct, frozen=True, gc=False):
    """Run server tools, in order."""

    calls: tuple[ToolCall, ...]
    keep: bool


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Wait with the client connected, no longer than `most_ms`."""

    until_ms: int
    """When something is ready as things are now, in UTC milliseconds; reminders may change."""
    most_ms: int


class Close(msgspec.Struct, frozen=True, gc=False):
    """Save, then show the withheld tail."""

    neutral_finish: bool
    disarm: str = ""
    """Why the session's stop message is spent now, if it is."""
    reason: str = ""
    """What cut the answer short, if something did."""


class ShowError(msgspec.Struct, frozen=True, gc=False):
    """Say what went wrong: a status before the first byte, an error frame after it."""

    error: HoldgateError


class LetGo(msgspec.Struct, frozen=True, gc=False):
    """Nobody is listening: release what was claimed."""


Effect = OpenTurn | RelayTurn | RunTools | Hold | Close | ShowError | LetGo
