"""Whether frames of Messages say anything to whoever reads them."""

from __future__ import annotations

from gateway.dialects.anthropic_messages.turn import DELTA, START, speaks
from gateway.dialects.events import Json, part_of, read_events


def shows_content(frames: bytes) -> bool:
    """Tell whether any event says something, thinks or calls."""
    return any(map(_says, read_events(frames)))


def _says(event: Json) -> bool:
    if event.get("type") in (START, DELTA):
        return speaks(event)
    # Usually empty: a message may begin with what was said before.
    return bool(part_of(event, "message").get("content"))
