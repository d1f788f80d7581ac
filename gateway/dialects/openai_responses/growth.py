"""One output item of a Responses stream, put together from the events that tell of it."""

from __future__ import annotations

from typing import Any

from gateway.dialects.events import Json

# Which part of an item an event speaks of: the list it stands in, and what says where.
PARTS = {
    "content_part": ("content", "content_index"),
    "reasoning_summary_part": ("summary", "summary_index"),
}
# Whose text it lengthens or completes: that of a part, or of the item itself.
PART_TEXTS = {
    "output_text": ("content", "content_index", "text"),
    "refusal": ("content", "content_index", "refusal"),
    "reasoning_text": ("content", "content_index", "text"),
    "reasoning_summary_text": ("summary", "summary_index", "text"),
}
TEXTS = {
    "function_call_arguments": "arguments",
    "custom_tool_call_input": "input",
    "mcp_call_arguments": "arguments",
    "code_interpreter_call_code": "code",
}


class GrowingItem:
    """An item as far as it is in; text that comes in a thousand pieces is joined once."""

    __slots__ = ("_item", "_name", "_pieces", "_where")

    def __init__(self) -> None:
        self._item: Json = {}
        self._where: Json = {}
        self._name = ""
        self._pieces: list[str] = []

    @property
    def item(self) -> Json:
        """The item with all that was said of it."""
        self._join()
        return self._item

    @item.setter
    def item(self, item: Json) -> None:
        self._pieces.clear()
        self._where, self._item = {}, item

    def add(self, event: Json) -> None:
        """Take what an event adds to the item; of what is not known, nothing."""
        subject, _, verb = str(event.get("type")).removeprefix("response.").rpartition(".")
        if subject in PARTS:
            self._part(*PARTS[subject], event)
        elif subject in PART_TEXTS:
            name, index, text = PART_TEXTS[subject]
            self._text(self._at(name, event.get(index)), text, verb, event)
        elif subject in TEXTS:
            self._text(self._item, TEXTS[subject], verb, event)
        elif subject == "output_text.annotation":
            self._annotate(event)

    def _part(self, name: str, index: str, event: Json) -> None:
        self._join()
        part, at = event.get("part"), event.get(index)
        parts = self._parts(name)
        if not isinstance(part, dict):
            return
        if isinstance(at, int) and 0 <= at < len(parts):
            parts[at] = part
        else:
            parts.append(part)

    def _parts(self, name: str) -> list[Any]:
        parts = self._item.get(name)
        if not isinstance(parts, list):
            parts = self._item[name] = []
        return parts

    def _at(self, name: str, index: object) -> Json | None:
        parts = self._parts(name)
        part = parts[index] if isinstance(index, int) and 0 <= index < len(parts) else None
        return part if isinstance(part, dict) else None

    def _text(self, where: Json | None, name: str, verb: str, event: Json) -> None:
        text = event.get("delta" if verb == "delta" else name)
        if where is None or not isinstance(text, str):
            return
        if where is not self._where or name != self._name or verb != "delta":
            self._join()
            self._where, self._name = where, name
        if verb == "delta":
            self._pieces.append(text)
        else:
            where[name] = text

    def _annotate(self, event: Json) -> None:
        part = self._at("content", event.get("content_index"))
        notes = part.get("annotations") if part is not None else None
        if isinstance(notes, list):
            notes.append(event.get("annotation"))

    def _join(self) -> None:
        if self._pieces:
            before = self._where.get(self._name)
            said = "".join(self._pieces)
            self._where[self._name] = before + said if isinstance(before, str) else said
            self._pieces.clear()
