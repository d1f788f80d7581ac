"""The empty line before the text of a later turn: clients join texts without a separator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.dialects.events import Json, part_of
from gateway.dialects.openai_responses.output import Slot

APART = "\n\n"
TEXT = "output_text"
DELTA, DONE = "response.output_text.delta", "response.output_text.done"
PART = "response.content_part."


@dataclass(slots=True, eq=False)
class Gap:
    """Begins the first text of one turn with an empty line, wherever that text is told."""

    _slot: Slot | None = None
    _index: object = None
    _begun: bool = False

    def fit(self, slot: Slot, event: Json) -> None:
        """Change an event that tells that text."""
        for index, where, name in _texts_in(event):
            if self._slot is None:
                self._slot, self._index = slot, index
            if slot is not self._slot or index != self._index or (name == "delta" and self._begun):
                continue
            where[name] = APART + where[name]
            self._begun = True

    def item(self, slot: Slot) -> Json:
        """Return an item as it was shown."""
        item = slot.growth.item
        return item if slot is not self._slot else _with_copied_parts(item, self._index)


def _texts_in(event: Json) -> Iterator[tuple[object, Json, str]]:
    """Find the texts that an event tells: which part of the item, and where; none is empty."""
    kind, index = str(event.get("type")), event.get("content_index")
    # Some upstreams do not say which part it is: their items have just one.
    index = index if isinstance(index, int) else 0
    found: list[tuple[object, Json, str]] = []
    if kind == DELTA:
        found = [(index, event, "delta")]
    elif kind == DONE:
        found = [(index, event, "text")]
    elif kind.startswith(PART) and part_of(event, "part").get("type") == TEXT:
        event["part"] = {**event["part"]}
        found = [(index, event["part"], "text")]
    elif part_of(event, "item").get("type") == "message":
        event["item"] = {**event["item"], "content": _copy_parts(event["item"])}
        found = [(at, part, "text") for at, part in _texts_of(event["item"])]
    return ((at, where, name) for at, where, name in found if _is_text(where.get(name)))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _copy_parts(item: Json) -> list[object]:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return [{**part} if isinstance(part, dict) else part for part in parts]


def _texts_of(item: Json) -> Iterator[tuple[int, Json]]:
    for at, part in enumerate(item["content"]):
        if isinstance(part, dict) and part.get("type") == TEXT and _is_text(part.get("text")):
            yield at, part


def _with_copied_parts(item: Json, index: object) -> Json:
    shown = {**item, "content": _copy_parts(item)}
    for at, part in _texts_of(shown):
        if at == index:
            part["text"] = APART + part["text"]
    return shown


def set_apart(items: list[Json]) -> list[Json]:
    """Begin the first text of a turn's items with an empty line."""
    for at, item in enumerate(items):
        if item.get("type") == "message":
            copy = {**item, "content": _copy_parts(item)}
            for _, part in _texts_of(copy):
                part["text"] = APART + part["text"]
                return [*items[:at], copy, *items[at + 1 :]]
    return items
