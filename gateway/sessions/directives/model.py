"""Directives as values, after they were read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Target(NamedTuple):
    """An upstream, or one of its models."""

    upstream: str
    model: str | None = None

    def __str__(self) -> str:
        return self.upstream if self.model is None else f"{self.upstream}.{self.model}"


@dataclass(frozen=True, slots=True)
class SetStopMessage:
    """Send this text whenever a turn ends with stop; without a count, as often as configured."""

    text: str
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class SetStopMessageFile:
    """Like `SetStopMessage`, with the text in a file. The name is user input: do not trust it."""

    name: str
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class ClearStopMessage:
    """Forget the stop message."""


@dataclass(frozen=True, slots=True)
class SetReminder:
    """Set a reminder. The time is as it was written."""

    time: str
    message: str


@dataclass(frozen=True, slots=True)
class ClearReminders:
    """Forget all reminders of the session."""


@dataclass(frozen=True, slots=True)
class AllowOnly:
    """Ask only these upstreams."""

    upstreams: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreferRoute:
    """Ask this route first."""

    upstream: str
    model: str


@dataclass(frozen=True, slots=True)
class ForceRoute:
    """Ask only this route, for this request."""

    upstream: str
    model: str


@dataclass(frozen=True, slots=True)
class Exclude:
    """Do not ask these; the list replaces the previous one."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take exclusions back: all of an upstream, or that of one model."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """Forget the routing directives and the stop message."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A directive that was recognised, but is not valid.

    The reason is printable ASCII without quotes or backslashes, so it fits into a header as it is.
    """

    keyword: str
    reason: str


Directive = (
    SetStopMessage
    | SetStopMessageFile
    | ClearStopMessage
    | SetReminder
    | ClearReminders
    | AllowOnly
    | PreferRoute
    | ForceRoute
    | Exclude
    | TakeBack
    | Clear
)


@dataclass(frozen=True, slots=True)
class Found:
    """A directive, and how it was written."""

    directive: Directive | Unreadable
    source: str
