"""What a session remembers between requests, and the pure changes to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gateway.core.directives import Routing


@dataclass(frozen=True, slots=True)
class StopMessage:
    """A text to be sent as the next user message whenever a turn ends with stop, N times."""

    text: str
    max_repeats: int
    used: int
    updated_at_ms: int
    last_used_at_ms: int | None = None

    @property
    def armed(self) -> bool:
        """Whether it may be sent once more."""
        return self.used < self.max_repeats


@dataclass(frozen=True, slots=True)
class SessionState:
    """All that is kept of one session."""

    stop: StopMessage | None = None
    routing: Routing = field(default_factory=Routing)
    seen: dict[str, int] = field(default_factory=dict)
    """When each directive acted, by fingerprint, so that a resent one does not act again."""


def arm(state: SessionState, text: str, repeats: int, now_ms: int) -> SessionState:
    """Set the stop message, counting from nothing."""
    return replace(state, stop=StopMessage(text, repeats, 0, now_ms))


def use_one(state: SessionState, now_ms: int) -> SessionState:
    """Count one more use, if one is left."""
    if state.stop is None or not state.stop.armed:
        return state
    return replace(
        state, stop=replace(state.stop, used=state.stop.used + 1, last_used_at_ms=now_ms)
    )


def disarm(state: SessionState) -> SessionState:
    """Take it as spent: it stays to be seen, and does nothing until it is set again."""
    if state.stop is None:
        return state
    return replace(state, stop=replace(state.stop, used=state.stop.max_repeats))


def clear_stop(state: SessionState) -> SessionState:
    """Forget the stop message."""
    return replace(state, stop=None)
