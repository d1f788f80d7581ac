"""The output of one streamed Responses turn: whose each item is, and its place in the answer.

Upstreams say by `output_index`, by `item_id`, or by both which item an event belongs to, and some
get one of them wrong. `TurnOutput` reads them all one way, holds an item back until it is certain
that it is the client's, and numbers those it shows without gaps. A `GrowingItem` is one item, put
together from the events that tell of it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from gateway.dialects.events import Json, NewId, as_text
from gateway.dialects.openai_responses.items import CALLS, FUNCTION_CALL, is_ours, make_unused
from gateway.errors import UpstreamBroke

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


@dataclass(slots=True, eq=False)
class GrowingItem:
    """An item as far as it is in; text that comes in a thousand pieces is joined once."""

    _item: Json = field(default_factory=dict)
    _where: Json = field(default_factory=dict)
    _name: str = ""
    _pieces: list[str] = field(default_factory=list)

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


ADDED, DONE = "response.output_item.added", "response.output_item.done"
ARGUMENTS = "response.function_call_arguments."
MOST_ITEMS = 10_000


@dataclass(slots=True, eq=False)
class Slot:
    """One item of a turn, as far as its events are in."""

    index: object
    id: str = ""
    growth: GrowingItem = field(default_factory=GrowingItem)
    begun: bool = False
    """Whether the item itself is in, and not only news of it."""
    ours: bool | None = None
    """Whether it calls a server tool; None while nobody can tell."""
    call_id: str = ""
    made: bool = False
    """Whether that id is not the one that came with the item."""
    shown_as: int = 0
    shown_id: str = ""
    held: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a turn's output begins in the answer: its first place, and the ids in use by then."""

    place: int | None = 0
    """None where it is not known any more what was shown before."""
    ids: Set[str] = frozenset()


FIRST_TURN = Start()


@dataclass(slots=True, eq=False)
class TurnOutput:
    """The items of one turn, in the order they began, and those of them that are shown."""

    _tools: frozenset[str]
    _new_id: NewId
    _room: int
    """How many bytes may still be remembered."""
    made: list[Slot] = field(default_factory=list)
    shown: list[Slot] = field(default_factory=list)
    start: Start = FIRST_TURN
    _calls: int = 0
    _at: dict[object, Slot] = field(default_factory=dict)
    _by_id: dict[str, Slot] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def join(self, start: Start) -> None:
        """Go on where the turns before it ended."""
        self.start = start
        self._used |= start.ids

    @property
    def whole(self) -> bool:
        """Whether all that was said is remembered."""
        return self._room >= 0

    @property
    def hides(self) -> bool:
        """Whether there is anything the client does not see."""
        return len(self.shown) < len(self.made)

    def items(self) -> list[Json]:
        """Return all items so far."""
        return [slot.growth.item for slot in self.made if slot.begun]

    def visible(self) -> list[Json]:
        """Return the items that are shown, as far as they are in."""
        return [slot.growth.item for slot in self.shown if slot.begun]

    def take(self, event: Json, size: int) -> Slot | None:
        """Find the item that an event belongs to, or begin it, and add the event.

        Returns None for an event that belongs to none. `size` is what it took on the wire.
        """
        kind, item = event.get("type"), event.get("item")
        slot: Slot | None = None
        if kind not in (ADDED, DONE):
            slot = self._of_news(event)
        elif isinstance(item, dict):
            slot = self._of_item(event, item, is_new=kind == ADDED)
            self._begin(slot, item)
        if slot is None:
            return None
        self._room -= size
        if self.whole and kind not in (ADDED, DONE):
            slot.growth.add(event)
        if slot.ours is None:
            self._judge(slot, event)
        return slot

    def settle(self) -> list[Slot]:
        """Judge what is left by what is known; return what is shown only now."""
        late = [slot for slot in self.made if slot.ours is None]
        for slot in late:
            self._show(slot)
        return late

    def _of_item(self, event: Json, item: Json, is_new: bool) -> Slot:
        found = self._find(event.get("output_index"), as_text(item.get("id")) or "")
        if found is None or (is_new and found.begun):
            return self._new(event)
        return found

    def _of_news(self, event: Json) -> Slot | None:
        """Find what an event adds to; one that has no place tells of an item by its id alone."""
        ident = as_text(event.get("item_id")) or ""
        if "output_index" not in event:
            return self._by_id.get(ident) if ident else None
        return self._find(event["output_index"], ident) or self._new(event)

    def _find(self, index: object, ident: str) -> Slot | None:
        slot = self._at.get(str(index))
        if slot is None or (ident and slot.id and ident != slot.id):
            return self._by_id.get(ident, slot)
        return slot

    def _new(self, event: Json) -> Slot:
        index = event.get("output_index")
        slot = Slot(index)
        self.made.append(slot)
        self._at[str(index)] = slot
        if len(self.made) > MOST_ITEMS:
            raise UpstreamBroke(f"The upstream sent more than {MOST_ITEMS} items in one turn.")
        return slot

    def _begin(self, slot: Slot, item: Json) -> None:
        """Take the item itself; a call has one id, the one that it was shown with."""
        if not slot.begun:
            slot.begun = True
            slot.id = as_text(item.get("id")) or ""
            self._by_id[slot.id] = slot
            slot.shown_id = self._make_unused(slot.id)
            self._used.add(slot.shown_id)
        if item.get("type") in CALLS:
            self._identify(slot, item)
        if slot.shown_id != slot.id:
            item["id"] = slot.shown_id
        slot.growth.item = item if self.whole else {}

    def _make_unused(self, ident: str) -> str:
        """Return an id that is told apart; the first turn keeps its own, as it may pass unread."""
        return make_unused(ident, self._used) if ident and self.start.ids else ident

    def _identify(self, slot: Slot, item: Json) -> None:
        given = item.get("call_id")
        if not slot.call_id:
            slot.call_id = as_text(given) or self._new_id(self._calls)
            self._calls += 1
        slot.made = slot.made or given != slot.call_id
        item["call_id"] = slot.call_id

    def _judge(self, slot: Slot, event: Json) -> None:
        """Tell whose item it is, as soon as its name is known."""
        kind, item = as_text(event.get("type")) or "", event.get("item")
        if not self._tools:
            self._show(slot)
            return
        if not isinstance(item, dict):
            item = slot.growth.item
        if kind.startswith(ARGUMENTS):
            item = {"type": FUNCTION_CALL, **item, "name": item.get("name") or event.get("name")}
        if is_ours(item, self._tools):
            slot.ours = True
        elif item.get("type") != FUNCTION_CALL or item.get("name") or kind == DONE:
            self._show(slot)

    def _show(self, slot: Slot) -> None:
        slot.ours = False
        slot.shown_as = self._next_place(slot)
        self.shown.append(slot)

    def _next_place(self, slot: Slot) -> int:
        if self.shown:
            return self.shown[-1].shown_as + 1
        if self.start.place is not None:
            return self.start.place
        hidden = len(self.made) - 1
        return max(slot.index - hidden, 0) if isinstance(slot.index, int) else 0
