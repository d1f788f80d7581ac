"""The output items of a Responses answer, written event by event or at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from gateway.dialects.canonical import (
    Call,
    CallBegan,
    CallWent,
    Reasoning,
    Refusal,
    Text,
)
from gateway.dialects.events import Json
from gateway.dialects.seals import as_encrypted
from gateway.dialects.translate.answer_context import ByteBudget
from gateway.dialects.translate.answer_writer import AnswerBlock, AnswerPart, Piece
from gateway.wire.sse import encode

COMPLETED = "completed"
IN_PROGRESS = "in_progress"


class _TextNames(NamedTuple):
    """What a text of a message is called: its events, its part, its own member."""

    event: str
    part: str
    name: str
    beside: Json


class _CallNames(NamedTuple):
    """What a call is called: its item, its events, the member that holds its arguments."""

    item: str
    event: str
    name: str
    prefix: str


OUTPUT_TEXT = _TextNames("response.output_text", "output_text", "text", {"logprobs": []})
REFUSAL = _TextNames("response.refusal", "refusal", "refusal", {})
FUNCTION = _CallNames("function_call", "response.function_call_arguments", "arguments", "fc_")
CUSTOM = _CallNames("custom_tool_call", "response.custom_tool_call_input", "input", "ctc_")

_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """Which item it is, and where it stands."""

    id: str
    index: int


@dataclass(slots=True, eq=False)
class ResponseOutput:
    """The output of one response: numbers its events and keeps its items."""

    budget: ByteBudget
    number: int = 0
    items: list[Json] = field(default_factory=list)
    status: str = COMPLETED
    """That of an item which ends now."""

    def frame(self, kind: str, members: Json) -> bytes:
        """Write an event, with the next number."""
        event = {"type": kind, "sequence_number": self.number, **members}
        self.number += 1
        return encode(_encode(event), kind)

    def write_item(self, verb: str, place: ItemPlace, item: Json) -> bytes:
        """Write that an item has begun (`added`) or is whole (`done`), and keep a whole one."""
        if verb == "done":
            # The last event of a response repeats all its items.
            self.items.append(item)
        members = {"output_index": place.index, "item": item}
        return self.frame(f"response.output_item.{verb}", members)


class GrowingText:
    """A text that grows by deltas; of an event all but the delta and the number is written once."""

    __slots__ = ("_event", "_output", "_pieces", "_prefix", "_suffix", "_where")

    def __init__(self, output: ResponseOutput, event: str, where: Json, beside: Json) -> None:
        self._output = output
        self._event = event
        self._where = {**where, **beside}
        self._pieces: list[str] = []
        delta = f"{event}.delta"
        opening = _encode({"type": delta, **self._where}).removesuffix(b"}")
        self._prefix = b'event: %b\ndata: %b,"delta":' % (delta.encode(), opening)

    def add(self, text: str) -> bytes:
        """Write a piece of it."""
        output = self._output
        output.budget.spend(len(text))
        number = output.number
        output.number = number + 1
        self._pieces.append(text)
        return b'%b%b,"sequence_number":%d}\n\n' % (self._prefix, _encode(text), number)

    def whole(self) -> str:
        """Return all of it."""
        return "".join(self._pieces)

    def write_done(self, name: str) -> bytes:
        """Write that it is whole."""
        return self._output.frame(f"{self._event}.done", {**self._where, name: self.whole()})


class MessageItem:
    """A message with one part: a text, or a refusal."""

    __slots__ = ("_names", "_output", "_place", "_where", "text")

    def __init__(self, output: ResponseOutput, place: ItemPlace, piece: Text | Refusal) -> None:
        self._output = output
        self._place = place
        self._names = REFUSAL if isinstance(piece, Refusal) else OUTPUT_TEXT
        self._where = {"item_id": place.id, "output_index": place.index, "content_index": 0}
        self.text = GrowingText(output, self._names.event, self._where, self._names.beside)

    def begin(self) -> bytes:
        """Write its beginning."""
        item = _message_item(self._place.id, IN_PROGRESS, [])
        return self._output.write_item("added", self._place, item) + self._part("added", "")

    def add(self, piece: Any) -> bytes:
        """Write a piece of it."""
        return self.text.add(piece.text)

    def end(self) -> bytes:
        """Write its end."""
        text, status = self.text.whole(), self._output.status
        item = _message_item(self._place.id, status, [_text_part(self._names, text)])
        done = self.text.write_done(self._names.name) + self._part("done", text)
        return done + self._output.write_item("done", self._place, item)

    def _part(self, verb: str, text: str) -> bytes:
        part = {**self._where, "part": _text_part(self._names, text)}
        return self._output.frame(f"response.content_part.{verb}", part)


class ReasoningItem:
    """A thought; what can be read of it is its summary."""

    __slots__ = ("_output", "_place", "_text", "_thought", "_where")

    def __init__(self, output: ResponseOutput, place: ItemPlace, piece: Reasoning) -> None:
        self._output = output
        self._place = place
        self._where = {"item_id": place.id, "output_index": place.index, "summary_index": 0}
        self._text = GrowingText(output, "response.reasoning_summary_text", self._where, {})
        self._thought = Reasoning()

    def begin(self) -> bytes:
        """Write its beginning."""
        return self._output.write_item("added", self._place, _reasoning_item(self._place.id, ""))

    def add(self, piece: Any) -> bytes:
        """Write a piece of it; its summary begins with the first text."""
        begun = self._part("added", "") if piece.text and not self._text.whole() else b""
        written = begun + self._text.add(piece.text) if piece.text else b""
        self._thought = piece
        return written

    def end(self) -> bytes:
        """Write its end."""
        text = self._text.whole()
        item = _reasoning_item(self._place.id, text)
        item["encrypted_content"] = as_encrypted(self._thought)
        done = self._text.write_done("text") + self._part("done", text) if text else b""
        return done + self._output.write_item("done", self._place, item)

    def _part(self, verb: str, text: str) -> bytes:
        part = {**self._where, "part": {"type": "summary_text", "text": text}}
        return self._output.frame(f"response.reasoning_summary_part.{verb}", part)


class CallItem:
    """A call of a function, or of a tool that takes plain text."""

    __slots__ = ("_call", "_names", "_output", "_place", "_text")

    def __init__(self, output: ResponseOutput, place: ItemPlace, piece: CallBegan) -> None:
        self._output = output
        self._place = place
        self._call = Call(piece.id, piece.name, "", piece.custom)
        self._names = CUSTOM if piece.custom else FUNCTION
        where = {"item_id": place.id, "output_index": place.index}
        self._text = GrowingText(output, self._names.event, where, {})

    def begin(self) -> bytes:
        """Write its beginning."""
        item = _call_item(self._place.id, IN_PROGRESS, self._call)
        return self._output.write_item("added", self._place, item)

    def add(self, piece: Any) -> bytes:
        """Write a piece of its arguments."""
        return self._text.add(piece.arguments) if isinstance(piece, CallWent) else b""

    def end(self) -> bytes:
        """Write its end."""
        call = msgspec.structs.replace(self._call, arguments=self._text.whole())
        item = _call_item(self._place.id, self._output.status, call)
        done = self._text.write_done(self._names.name)
        return done + self._output.write_item("done", self._place, item)


ITEMS: Mapping[type[Piece], Callable[[ResponseOutput, ItemPlace, Any], AnswerBlock]] = {
    Text: MessageItem,
    Refusal: MessageItem,
    Reasoning: ReasoningItem,
    CallBegan: CallItem,
}


def prefix_of(piece: Piece | AnswerPart) -> str:
    """Return how the id of an item begins."""
    if isinstance(piece, Reasoning):
        return "rs_"
    if isinstance(piece, Call | CallBegan):
        return (CUSTOM if piece.custom else FUNCTION).prefix
    return "msg_"


def whole_item(ident: str, part: AnswerPart) -> Json:
    """Write an item at once."""
    if isinstance(part, Reasoning):
        return {**_reasoning_item(ident, part.text), "encrypted_content": as_encrypted(part)}
    if isinstance(part, Call):
        return _call_item(ident, COMPLETED, part)
    names = REFUSAL if isinstance(part, Refusal) else OUTPUT_TEXT
    return _message_item(ident, COMPLETED, [_text_part(names, part.text)])


def _text_part(names: _TextNames, text: str) -> Json:
    beside = {"annotations": [], **names.beside} if names.beside else {}
    return {"type": names.part, names.name: text, **beside}


def _message_item(ident: str, status: str, content: list[Json]) -> Json:
    message = {"id": ident, "type": "message", "status": status}
    return {**message, "role": "assistant", "content": content}


def _reasoning_item(ident: str, text: str) -> Json:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": ident, "type": "reasoning", "summary": summary}


def _call_item(ident: str, status: str, call: Call) -> Json:
    names = CUSTOM if call.custom else FUNCTION
    item = {"id": ident, "type": names.item, "status": status, "call_id": call.id}
    return {**item, "name": call.name, names.name: call.arguments}
