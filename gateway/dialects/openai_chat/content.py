"""Whether frames of Chat Completions say anything to whoever reads them."""

from __future__ import annotations

from gateway.dialects.events import Json, part_of, read_events
from gateway.dialects.openai_chat.turn import speaks


def shows_content(frames: bytes) -> bool:
    """Tell whether any chunk says something, thinks, refuses or calls."""
    return any(_says(choice) for chunk in read_events(frames) for choice in _choices(chunk))


def _choices(chunk: Json) -> list[Json]:
    choices = chunk.get("choices")
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def _says(choice: Json) -> bool:
    return speaks(part_of(choice, "delta")) or speaks(part_of(choice, "message"))
