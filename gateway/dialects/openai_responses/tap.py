"""One turn of a streamed Responses answer: looked at, and fitted into the answer.

A tap is fed whatever the upstream sends, cut anywhere, and returns whole frames. Turn 1 passes byte
for byte and mostly unread: deltas only go onto the tape, which is read when somebody has to know
what was said (`_catch_up`). From the first sign of a call to a server tool on, and in later turns,
every event is read, given its place in the answer (`TurnOutput`) and numbered on. A tap may hold
back two things only: the last event, since a follow-up may be joined on instead of it, and the
events of an item while nobody can tell whose call it is. Invariants: any split of the input shows
the same bytes; sequence numbers grow; an item has one place and one id from its first event on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from gateway.dialects.events import DONE, Json, RecordedTap, StreamTap, read_named
from gateway.dialects.openai_responses.answer import FinishedResponsesTurn, ResponsesAnswer
from gateway.dialects.openai_responses.errors import (
    ENDS,
    EventHead,
    is_last,
    read_disguised_error,
    read_head,
)
from gateway.dialects.openai_responses.gap import Gap, set_apart
from gateway.dialects.openai_responses.items import (
    AnsweredItems,
    add_call_ids,
    client_items,
    fields_in,
    output_in,
    speaks,
    stop_of,
    usage_in,
    usage_of,
)
from gateway.dialects.openai_responses.output import Slot, Start, TurnOutput
from gateway.dialects.raw_json import Fields
from gateway.errors import UpstreamBroke
from gateway.exchange.model import TurnEnd
from gateway.wire.sse import CR, data_of, encode, split, split_events

BEGINNINGS = ("response.created", "response.queued", "response.in_progress")
# What tells of a call: the item itself, or news of one that did not come first.
CALL = b'"function_call"'
ARGUMENTS = b"response.function_call_arguments."
NEVER = b"\0"


class ResponsesTap(StreamTap, RecordedTap):
    """Looks at one turn's frames: turn 1 passes byte for byte, later turns are fitted on."""

    __slots__ = (
        "_answer",
        "_changed",
        "_end_number",
        "_gap",
        "_held",
        "_items",
        "_output",
        "_sequence",
        "_usual",
        "end_frame",
        "end_kind",
        "final",
        "seen",
    )

    def __init__(self, answer: ResponsesAnswer, turn: int, event_bytes: int) -> None:
        super().__init__(turn, answer.tools, event_bytes)
        self._answer = answer
        self._output = TurnOutput(answer.tools, partial(answer.call_id, turn), event_bytes)
        self._held = 0
        self._changed = False
        # How a frame begins that only lengthens a text.
        self._usual = NEVER
        self._sequence = -1
        self._end_number: int | None = None
        self._items: list[Json] | None = None
        # What sets its first text apart from that of the turns before it.
        self._gap: Gap | None = None
        self.end_frame = b""
        self.end_kind = ""
        self.final: Fields = {}
        self.seen = False

    def join(self, start: Start, sequence: int, after_text: bool) -> None:
        """Go on where the turns before it ended."""
        self._output.join(start)
        self._sequence = sequence
        self._gap = Gap() if after_text else None

    @property
    def edited(self) -> bool:
        """Whether the client saw it otherwise than it came."""
        return self._changed or (self._reads_all and self._output.hides)

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what the client may see now."""
        batch = self._framer.batch(data)
        is_one = batch.startswith(self._usual) and batch.find(b"\n\n") == len(batch) - 2
        if is_one and CR not in batch:
            # One frame that only lengthens a text, as most do: this is the hot path. It saves even
            # the search for the last frame in `_pass`; test_taps_twins.py shows both to be alike.
            self._tape.record(batch)
            return batch
        if not batch:
            return b""
        shown = self._pass(batch)
        # That a follow-up has begun says nothing yet: while nobody saw it, it is lost without harm.
        self.seen = self._spoke or not self._joined
        return shown

    def close(self) -> bytes:
        """Take the end of the bytes; a turn without its last event was cut short."""
        rest = self._flush()
        shown = self._pass(rest) if rest else b""
        if not self.ended:
            raise UpstreamBroke("The upstream's answer ended before it was finished.")
        self.seen = True
        return shown

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        # What passed unread is not read for it, if the last event lists the items.
        listed = [] if self._reads_all else self._read_listed()
        turn, tools = AnsweredItems(listed or self.items()), self._tools
        # Past the tape's bound only the last event can tell the items, if it lists them.
        continuable = bool(self.end_frame) and (self._is_whole or bool(turn.items))
        return TurnEnd(
            stop=stop_of(ENDS.get(self.end_kind, ""), self.final, turn.items),
            server_calls=turn.server_calls(tools) if continuable else (),
            client_calls=bool(turn.client_calls(tools)),
            usage=usage_of(usage_in(self.final)),
            spoke=not self._joined or speaks(turn.items),
            continuable=continuable,
        )

    def read_turn(self) -> AnsweredItems:
        """Return the turn's items, and whether the upstream has them in a conversation."""
        return AnsweredItems(self.items(), bool(fields_in(self.final, "conversation")))

    def items(self) -> list[Json]:
        """Return all items of a turn that has ended, as they were streamed if that is known."""
        if self._items is None:
            self._catch_up()
            items = self._output.items() if self._is_whole else []
            self._items = items or self._read_listed()
        return self._items

    def summarize(self) -> FinishedResponsesTurn:
        """Return what the rest of the answer takes of it, now that it has ended."""
        return FinishedResponsesTurn(
            final=self.final,
            end_kind=self.end_kind,
            end_frame=self.end_frame,
            edited=self.edited,
            items=self.visible(),
            sequence=self.last_sequence(),
        )

    def visible(self) -> list[Json]:
        """Return the items that the client has seen of a turn that has ended."""
        if shown := self.list_shown():
            return shown
        listed = client_items(self.items(), self._tools)
        return listed if self._gap is None else set_apart(listed)

    def list_shown(self) -> list[Json] | None:
        """Return what the client has seen of it by now; None if that is not known any more."""
        self._catch_up()
        if not self._is_whole:
            return None
        if self._gap is None:
            return self._output.visible()
        return [self._gap.item(slot) for slot in self._output.shown if slot.begun]

    def last_sequence(self) -> int:
        """Return the number of the last event that was shown."""
        self._catch_up()
        # Nobody counted what passed, but turn 1 keeps its own numbers, and its end has one.
        if not self._is_whole and self._end_number is not None and not self._joined:
            return self._end_number - 1
        return self._sequence

    @property
    def _is_whole(self) -> bool:
        return self._tape.whole and self._output.whole

    def _read_listed(self) -> list[Json]:
        return add_call_ids(output_in(self.final), partial(self._answer.call_id, self._turn))

    def _pass(self, batch: bytes) -> bytes:
        """Let several frames through untouched, if none of them needs to be looked at."""
        if self._reads_all or (
            self._tools and (batch.find(CALL) >= 0 or batch.find(ARGUMENTS) >= 0)
        ):
            self._read_on()
            return self._judge(batch)
        # The end stands last, so the last frame tells of the whole batch.
        last = batch.rfind(b"\n\n", 0, -2) + 2
        if last < 2 or not batch.startswith(self._usual, last) or CR in batch:
            return self._judge(batch)
        self._tape.record(batch)
        return batch

    def _judge(self, batch: bytes) -> bytes:
        return b"".join([self._frame(frame) for frame in split(batch)])

    def _read_on(self) -> None:
        """Read every event from now on: one of them may call a tool of ours."""
        if self._reads_all:
            return
        self._reads_all, self._usual = True, NEVER
        if not self._tape.whole:
            # How many items were shown is forgotten; the next one's own index has to tell.
            self._output.join(Start(place=None))
        self._catch_up()

    def _catch_up(self) -> None:
        """Read what passed unread."""
        batches, self._tape.batches = self._tape.batches, []
        for event, size in _events(batches):
            self._output.take(event, size)
            self._note(event)

    def _note(self, event: Json) -> None:
        number = event.get("sequence_number")
        if isinstance(number, int):
            self._sequence = max(self._sequence, number)

    def _frame(self, frame: bytes) -> bytes:
        if self.ended:
            return b""
        # While every event is read this is `NEVER`, with which no frame begins.
        if frame.startswith(self._usual):
            self._tape.record(frame)
            return frame
        data = data_of(frame)
        head = read_head(frame, data) if data is not None else None
        if data is None or head is None:
            return self._unread(frame, data)
        if head.fails:
            return self._fail(data)
        if head.type in ENDS:
            return self._end(head, frame)
        self._answer.adopt(head.response)
        self._spoke = self._spoke or head.type not in BEGINNINGS
        if self._reads_all:
            return self._event(read_named(frame, data) or {}, frame)
        self._tape.record(frame)
        self._learn(head, frame)
        return frame

    def _unread(self, frame: bytes, data: bytes | None) -> bytes:
        """Show what is no event that can be read, unless it would be the end of the answer."""
        # A last event that cannot be read would leave the client without an end.
        if is_last(frame):
            return self._fail(b"")
        is_mark = data is not None and data.strip() == DONE
        return b"" if is_mark or (self._joined and not self._spoke) else frame

    def _learn(self, head: EventHead, frame: bytes) -> None:
        """Remember how a frame begins, if it only lengthens a text."""
        if head.type.endswith(".delta"):
            named = frame.find(head.type.encode())
            self._usual = frame[: named + len(head.type) + 1]

    def _fail(self, data: bytes) -> bytes:
        """Take an error; what was said before it in the same read is still to be shown."""
        # Before anything was shown another route may answer instead: then it is raised.
        if not (self._spoke or self.seen):
            raise read_disguised_error(data)
        self.failure = read_disguised_error(data)
        self.ended, self._usual = True, NEVER
        return b""

    def _end(self, head: EventHead, frame: bytes) -> bytes:
        """Withhold the last event, until the verdict."""
        # First, as it belongs before the end: no name comes any more for what is still held.
        shown = b"".join([self._let_go(slot) for slot in self._output.settle()])
        self._answer.adopt(head.response)
        self._spoke = self.ended = True
        self._usual = NEVER
        self.final = fields_in({"response": head.response}, "response")
        self.end_kind, self.end_frame = head.type, frame
        if isinstance(head.sequence_number, int):
            self._end_number = head.sequence_number
        return shown

    def _event(self, event: Json, frame: bytes) -> bytes:
        if event.get("type") in BEGINNINGS:
            return self._begin_again(event, frame)
        slot = self._output.take(event, len(frame))
        if slot is None:
            return self._fit_other(event, frame)
        if slot.ours is None:
            return self._hold(slot, frame)
        if slot.ours:
            # The client never hears of it; the turn is rebuilt from the output, not from these.
            slot.held.clear()
            return b""
        return self._let_go(slot) + self._fit(slot, event, frame)

    def _begin_again(self, event: Json, frame: bytes) -> bytes:
        """Show the beginning of turn 1 only; later it may list what the client does not see."""
        if self._joined or self._output.hides:
            return b""
        self._note(event)
        return frame

    def _hold(self, slot: Slot, frame: bytes) -> bytes:
        slot.held.append(frame)
        self._held += len(frame)
        if self._held > self._limit:
            raise UpstreamBroke("The upstream began a tool call and did not name its tool.")
        return b""

    def _let_go(self, slot: Slot) -> bytes:
        """Show what was held of an item that turned out to be the client's."""
        held, slot.held = slot.held, []
        return b"".join([self._fit(slot, event, b"") for event, _ in _events(held)])

    def _fit(self, slot: Slot, event: Json, frame: bytes) -> bytes:
        """Write an event of an item as the client sees it."""
        moved = event.get("output_index", slot.shown_as) != slot.shown_as
        changed = self._joined or not frame or moved
        if self._joined or moved:
            event["output_index"] = slot.shown_as
        item = event.get("item")
        if isinstance(item, dict) and slot.made:
            item["call_id"] = slot.call_id
            changed = True
        if self._joined and slot.shown_id:
            self._name(slot, event)
        if self._gap is not None:
            self._gap.fit(slot, event)
        return self._write(event, frame, changed)

    @staticmethod
    def _name(slot: Slot, event: Json) -> None:
        item = event.get("item")
        if "item_id" in event:
            event["item_id"] = slot.shown_id
        if isinstance(item, dict) and "id" in item:
            item["id"] = slot.shown_id

    def _fit_other(self, event: Json, frame: bytes) -> bytes:
        """Write an event that is of no item; what a later turn says, it says of the answer."""
        response = event.get("response")
        # It is about an item that never began: at another place it would seem another's.
        if self._joined and "output_index" in event:
            return b""
        if self._joined and "response_id" in event:
            event["response_id"] = self._answer.id
        if self._joined and isinstance(response, dict):
            response["id"] = self._answer.id
        return self._write(event, frame, changed=self._joined)

    def _write(self, event: Json, frame: bytes, changed: bool) -> bytes:
        """Number an event; write it again only if it changed."""
        number = event.get("sequence_number")
        if isinstance(number, int):
            if self._joined or number <= self._sequence:
                changed, event["sequence_number"] = True, self._sequence + 1
            self._sequence = event["sequence_number"]
        if not changed:
            return frame
        self._changed = True
        kind = str(event.get("type"))
        return encode(msgspec.json.encode(event), kind if kind.isprintable() else "")


def _events(batches: list[bytes]) -> Iterator[tuple[Json, int]]:
    """Read the events of recorded frames, and what each took on the wire."""
    for batch in batches:
        for frame, data in split_events(batch):
            event = read_named(frame, data) if data is not None else None
            if event is not None:
                yield event, len(frame)
