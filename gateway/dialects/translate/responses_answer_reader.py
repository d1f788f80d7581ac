"""What an upstream of Responses answers, as events of no dialect.

A response is a row of items. All that an item says comes in deltas, once more when it is done, and
once more at the end of the response. Servers leave any of the three out, so each item remembers
what was told of it: what is missing is taken from the next telling, and nothing is told twice.

An item is known by its place (`output_index`), or by its id where a server gives no place. A call
is told once its name is known, which is mostly when its item is added; arguments that come before
that wait for the item to be done. Texts of several items are one text to the other dialects, so
those of another item are set apart by an empty line.

The end of the bytes ends nothing here: only `response.completed`, `.incomplete` or a failure does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.dialects.canonical import (
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Reasoning,
    Refusal,
    Text,
)
from gateway.dialects.events import NO_ARGUMENTS, Json, as_text, objects_in, text_in
from gateway.dialects.openai_responses.items import REASONS
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_reader import OTHER_SHAPE, AnswerReader, read_openai_usage
from gateway.dialects.translate.errors import read_body, read_failure
from gateway.dialects.translate.event_data import decode_event
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Stop

APART = "\n\n"
CUSTOM = "custom_tool_call"
# The member that holds what a call was made with.
ARGUMENTS = {"function_call": "arguments", CUSTOM: "input"}
TEXT = "response.output_text.delta"
ENDS = ("completed", "incomplete")
FAILURES = ("response.failed", "error")
# Items are remembered to the end of the answer, so their number is bounded.
MOST_ITEMS = 10_000


class _ResponsesEvent(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    summary_index: Any = None
    delta: Any = None
    item: Any = None
    response: Any = None


_event = msgspec.json.Decoder(_ResponsesEvent)
_response: msgspec.json.Decoder[Json] = msgspec.json.Decoder(Json)


@dataclass(slots=True, eq=False)
class _OutputItem:
    """An item, as far as it was told."""

    said: bool = False
    """Whether anything was told of what it says."""
    call: int | None = None
    done: bool = False


class ResponsesAnswerReader(AnswerReader):
    """Reads one answer, event by event or as one body."""

    __slots__ = ("_called", "_items", "_refused", "_speaker", "_speaking")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._items: dict[int | str | None, _OutputItem] = {}
        self._called = 0
        self._refused = False
        self._speaker: _OutputItem | None = None
        """The item that said the last text, if nothing else came since."""
        self._speaking: int | None = None
        """Where it stands."""

    def read(self, data: bytes) -> Sequence[Event]:
        """Read one event's data."""
        event = decode_event(_event, data)
        if event is None or self.ended:
            return ()
        if event.type == TEXT and event.output_index == self._speaking is not None:
            # The usual case: the item that speaks goes on, and nothing about it has to be noted.
            # The fast twin of `_on_text` saves a third of the time to read it; test_fast_paths.py
            # shows that both tell the same.
            return (Text(event.delta),) if isinstance(event.delta, str) and event.delta else ()
        if event.type in FAILURES:
            # A failure has its error in the response or in the event itself: all of it is read.
            return self._fail(read_body(data))
        handler = HANDLERS.get(event.type)
        return handler(self, event) if handler is not None else ()

    def whole(self, body: bytes) -> Sequence[Event]:
        """Read an answer that came as one body."""
        response = decode_event(_response, body)
        if response is not None and response.get("error"):
            return self._fail(read_body(body))
        if response is None or not isinstance(response.get("output"), list):
            raise UpstreamBroke(OTHER_SHAPE)
        return [*self._begin(response), *self._finish(response)]

    def _on_started(self, event: _ResponsesEvent) -> Sequence[Event]:
        return self._begin(event.response)

    def _begin(self, response: Any = None) -> Sequence[Event]:
        if self.began:
            return ()
        told = response if isinstance(response, dict) else {}
        return (self._begin_answer(told.get("id"), told.get("model"), told.get("created_at")),)

    def _at(self, event: _ResponsesEvent) -> _OutputItem:
        """Find the item that an event is about, or begin one."""
        key = event.output_index if event.output_index is not None else _ident_of(event)
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _OutputItem()
            if len(self._items) > MOST_ITEMS:
                raise UpstreamBroke(f"The upstream sent more than {MOST_ITEMS} items in one turn.")
        return item

    def _on_item_added(self, event: _ResponsesEvent) -> Sequence[Event]:
        item, told = self._at(event), event.item if isinstance(event.item, dict) else {}
        return [*self._begin(), *self._begin_call(item, told)]

    def _begin_call(self, item: _OutputItem, told: Json) -> Sequence[Event]:
        """Tell that a call began, as soon as its name is known."""
        kind, name = as_text(told.get("type")), as_text(told.get("name"))
        if kind not in ARGUMENTS or not name or item.call is not None:
            return ()
        item.call = self._called
        self._called += 1
        self._pause()
        # It is the call's id that results name, not the item's.
        ident = as_text(told.get("call_id")) or self._make_call_id(item.call)
        return (CallBegan(item.call, ident, name, kind == CUSTOM),)

    def _pause(self) -> None:
        """Note that something else than text came."""
        self._speaker = self._speaking = None

    def _on_text(self, event: _ResponsesEvent) -> Sequence[Event]:
        item, text = self._at(event), text_in(event.delta)
        if not text:
            return self._begin()
        events = [*self._begin(), *self._say(item, text)]
        self._speaking = event.output_index
        return events

    def _say(self, item: _OutputItem, text: str) -> Sequence[Event]:
        """Tell a text; that of another item stands apart."""
        item.said = True
        # After something else than text the other dialects begin a new text anyway.
        is_other = self._speaker is not None and self._speaker is not item
        self._speaker, self._speaking = item, None
        return (Text(APART + text if is_other else text),)

    def _on_refusal(self, event: _ResponsesEvent) -> Sequence[Event]:
        return [*self._begin(), *self._refuse(self._at(event), text_in(event.delta))]

    def _refuse(self, item: _OutputItem, text: str) -> Sequence[Event]:
        self._pause()
        # The response is `completed` all the same: only the refusal tells why it ended so.
        item.said = self._refused = True
        return (Refusal(text),) if text else ()

    def _on_reasoning(self, event: _ResponsesEvent) -> Sequence[Event]:
        return [*self._begin(), *self._think(self._at(event), text_in(event.delta))]

    def _on_summary_part(self, event: _ResponsesEvent) -> Sequence[Event]:
        """Set one part of a summary apart from the one before it."""
        item = self._at(event)
        return self._think(item, APART) if item.said and event.summary_index else ()

    def _think(self, item: _OutputItem, text: str) -> Sequence[Event]:
        self._pause()
        item.said = True
        return (Reasoning(text),) if text else ()

    def _on_arguments(self, event: _ResponsesEvent) -> Sequence[Event]:
        item = self._at(event)
        return self._add_arguments(item, text_in(event.delta))

    def _add_arguments(self, item: _OutputItem, arguments: str) -> Sequence[Event]:
        """Tell a piece of a call's arguments; without a name they wait until it is done."""
        # What comes after the item was done is late news of what was told with it.
        if item.call is None or item.done or not arguments:
            return ()
        item.said = True
        return (CallWent(item.call, arguments),)

    def _on_item_done(self, event: _ResponsesEvent) -> Sequence[Event]:
        item, told = self._at(event), event.item if isinstance(event.item, dict) else {}
        return [*self._begin(), *self._complete(item, told)]

    def _complete(self, item: _OutputItem, told: Json) -> Sequence[Event]:
        """Tell what was not told of an item, and that it is done."""
        if item.done:
            return ()
        read = ITEM_READERS.get(as_text(told.get("type")) or "")
        events = read(self, item, told) if read is not None else ()
        item.done = True
        return events

    def _read_message(self, item: _OutputItem, told: Json) -> Sequence[Event]:
        if item.said:
            return ()
        events: list[Event] = []
        for part in objects_in(told.get("content")):
            if text := text_in(part.get("text")):
                events += self._say(item, text)
            if refusal := text_in(part.get("refusal")):
                events += self._refuse(item, refusal)
        return events

    def _read_reasoning(self, item: _OutputItem, told: Json) -> Sequence[Event]:
        events: list[Event] = []
        if not item.said:
            # Open models send their reasoning itself, others only a summary of it.
            parts = objects_in(told.get("summary")) or objects_in(told.get("content"))
            events += self._think(item, APART.join(text_in(part.get("text")) for part in parts))
        # The proof is never in a delta, so it is read even where the text was told.
        if encrypted := text_in(told.get("encrypted_content")):
            self._pause()
            events.append(Reasoning(encrypted=encrypted, id=as_text(told.get("id")) or ""))
        return events

    def _read_call(self, item: _OutputItem, told: Json) -> Sequence[Event]:
        kind = told["type"]
        events = [*self._begin_call(item, told)]
        if not item.said:
            given = text_in(told.get(ARGUMENTS[kind]))
            # An empty text is no JSON, so a function without arguments gets an empty object.
            events += self._add_arguments(item, given or ("" if kind == CUSTOM else NO_ARGUMENTS))
        return events if item.call is None else [*events, CallEnded(item.call)]

    def _on_ended(self, event: _ResponsesEvent) -> Sequence[Event]:
        response = event.response if isinstance(event.response, dict) else {}
        status = event.type.removeprefix("response.")
        return [*self._begin(response), *self._finish({"status": status, **response})]

    def _finish(self, response: Json) -> Sequence[Event]:
        self.ended = True
        status = response.get("status")
        if status not in ENDS:
            return (read_failure(response),)
        events: list[Event] = []
        for at, told in enumerate(objects_in(response.get("output"))):
            item = self._items.get(at) or self._items.get(as_text(told.get("id")))
            # If items came before, one that nothing was told of is a hosted tool's, or stands at
            # another place by now: to tell it might be to tell it twice.
            if item is not None or not self._items:
                events += self._complete(item or _OutputItem(), told)
        calls = (item.call for item in self._items.values() if not item.done)
        events += [CallEnded(call) for call in calls if call is not None]
        return [*events, self._make_end(status, response)]

    def _make_end(self, status: str, response: Json) -> Ended:
        tokens = read_openai_usage(response.get("usage"), "input", "output")
        if status == "incomplete":
            details = response.get("incomplete_details")
            reason = as_text(details.get("reason")) if isinstance(details, dict) else None
            stop = REASONS.get(reason or "", Stop.UNKNOWN)
            return Ended(stop, tokens, word=reason or status if stop is Stop.UNKNOWN else "")
        # The dialect has no word for it: that calls wait is seen from the items alone.
        if self._called:
            return Ended(Stop.TOOL_CALLS, tokens)
        return Ended(Stop.FILTER if self._refused else Stop.STOP, tokens)


HANDLERS: dict[str, Callable[[ResponsesAnswerReader, _ResponsesEvent], Sequence[Event]]] = {
    "response.created": ResponsesAnswerReader._on_started,
    "response.queued": ResponsesAnswerReader._on_started,
    "response.in_progress": ResponsesAnswerReader._on_started,
    "response.output_item.added": ResponsesAnswerReader._on_item_added,
    TEXT: ResponsesAnswerReader._on_text,
    "response.refusal.delta": ResponsesAnswerReader._on_refusal,
    "response.reasoning_text.delta": ResponsesAnswerReader._on_reasoning,
    "response.reasoning_summary_text.delta": ResponsesAnswerReader._on_reasoning,
    "response.reasoning_summary_part.added": ResponsesAnswerReader._on_summary_part,
    "response.function_call_arguments.delta": ResponsesAnswerReader._on_arguments,
    "response.custom_tool_call_input.delta": ResponsesAnswerReader._on_arguments,
    "response.output_item.done": ResponsesAnswerReader._on_item_done,
    "response.completed": ResponsesAnswerReader._on_ended,
    "response.incomplete": ResponsesAnswerReader._on_ended,
}
ITEM_READERS: dict[str, Callable[[ResponsesAnswerReader, _OutputItem, Json], Sequence[Event]]] = {
    "message": ResponsesAnswerReader._read_message,
    "reasoning": ResponsesAnswerReader._read_reasoning,
    "function_call": ResponsesAnswerReader._read_call,
    CUSTOM: ResponsesAnswerReader._read_call,
}


def _ident_of(event: _ResponsesEvent) -> str | None:
    """Return the id of the item that an event is about, or that it brings."""
    told = event.item if isinstance(event.item, dict) else {}
    return event.item_id or as_text(told.get("id"))
