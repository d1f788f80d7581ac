"""What to do: the outputs of the exchange machine, performed one at a time by the driver."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.additions import Addition
from gateway.core.model import Route, ToolCall
from gateway.errors import HoldgateError


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """Ask this route. A follow-up adds to what was asked before, and has a suffix to its id."""

    number: int
    route: Route
    additions: tuple[Addition, ...] = ()
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class RelayTurn:
    """Pass the turn's frames on until its end."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run server tools, in order."""

    calls: tuple[ToolCall, ...]
    keep: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait with the client connected."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Close:
    """Save, then show the withheld tail."""

    plainly: bool
    disarm: str = ""


@dataclass(frozen=True, slots=True)
class ShowError:
    """Say what went wrong: a status before the first byte, an error frame after it."""

    error: HoldgateError


@dataclass(frozen=True, slots=True)
class LetGo:
    """Nobody is listening: release what was claimed."""


Effect = OpenTurn | RelayTurn | RunTools | Hold | Close | ShowError | LetGo
