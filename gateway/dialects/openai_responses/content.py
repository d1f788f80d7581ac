"""Whether frames of Responses say anything to whoever reads them."""

from __future__ import annotations

from gateway.dialects.events import Json, part_of, read_events

# What an event says by itself: a piece of something, or all of it.
SAID = ("delta", "text", "refusal", "arguments", "input", "code", "partial_image_b64")
# Where the words stand of items that begin empty; any other item is a call, and is content.
EMPTY_AT_FIRST = {
    "message": ("content",),
    "reasoning": ("summary", "content"),
}


def shows_content(frames: bytes) -> bool:
    """Tell whether any event says something, thinks, refuses or calls."""
    return any(map(_says, read_events(frames)))


def _says(event: Json) -> bool:
    part = part_of(event, "part")
    if any(map(event.get, SAID)) or part.get("text") or part.get("refusal"):
        return True
    item = part_of(event, "item")
    members = EMPTY_AT_FIRST.get(str(item.get("type")))
    return bool(item) if members is None else any(_is_filled(item.get(name)) for name in members)


def _is_filled(value: object) -> bool:
    """Tell whether a member holds more than empty parts."""
    if not isinstance(value, list):
        return bool(value)
    return any(part.get("text") or part.get("refusal") for part in value if isinstance(part, dict))
