"""Messages as a stream: the tap on one turn, and the splice of n turns.

A tap is fed whatever the upstream sends, cut anywhere, and returns whole frames. Turn 1 passes byte
for byte; of later turns only the blocks are shown, numbered on (`Blocks`), under turn 1's
message_start. The tail stays back, from the `message_delta` with a stop reason on: a follow-up may
be joined on, and a message has one end. Calls to server tools are left out, and blocks wait while
another is open. The tape records what passed, within a bound, so that the turn can be rebuilt for a
follow-up. Invariants: any split of the input shows the same bytes; blocks are shown one after the
other, each from its start to its end; one turn that called no server tool ends with its own bytes.
"""

from __future__ import annotations

from functools import partial

import msgspec

from gateway.dialects.anthropic_messages.blocks import Blocks, write_event
from gateway.dialects.anthropic_messages.turn import (
    CALL,
    END,
    PLAIN_STOP,
    RecordedMessagesTurn,
    blocks_of,
    is_error,
    needs_sifting,
    read_disguised_error,
    record_events,
    speaks,
    stop_of,
    total_usage,
    unroll_block,
    update_usage,
    usage_of,
)
from gateway.dialects.events import (
    Json,
    RecordedStreamTap,
    StreamSplice,
    as_text,
    event_name,
    part_of,
    read_event,
    read_named,
)
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke
from gateway.exchange.model import ModelRequest, Stop, TurnEnd, Usage
from gateway.wire.sse import data_of, split

PING = write_event({"type": "ping"})
STOP = write_event({"type": "message_stop"})
# What cannot pass unread: the beginnings and ends of blocks and of the message, and errors. In
# a text these words stand with a backslash before their quotes.
BLOCK = b'"content_block_st'
MESSAGE = b'"message_'
ERROR = b'"error"'
# The same by name, for data that nobody can read.
NAMED = (b"event: error", b"event:error", b"event: message_", b"event:message_")
# How most upstreams begin an event that may, by which it is known.
USUAL = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta"',
    b'event: content_block_delta\ndata: {"type": "content_block_delta"',
)


class FinishedMessagesTurn(msgspec.Struct, frozen=True, gc=False):
    """What the rest of the answer takes of a turn that is part of it."""

    tail: bytes
    end: Json
    """The event that told why it stopped."""
    stop_reason: str | None
    hides_its_reason: bool
    model: object
    usage: Json
    next_block: int

    def closing(self, neutral_finish: bool) -> Json:
        """Return the event that ends the message as this turn ended, or as if it called nothing."""
        delta = part_of(self.end, "delta")
        reason = PLAIN_STOP if neutral_finish else self.stop_reason or PLAIN_STOP
        told = {"stop_sequence": None, **delta, "stop_reason": reason}
        return {"type": "message_delta", "usage": self.usage, **self.end, "delta": told}


class MessagesStream(StreamSplice):
    """Makes one stream out of n: one message_start, blocks in a row, one end for all turns."""

    __slots__ = ("_left_open", "_message", "_taken")

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> None:
        super().__init__(asked, server_tools, event_bytes)
        self._message: Json | None = None
        self._taken: list[FinishedMessagesTurn] = []
        self._left_open = b""

    def tap(self) -> MessagesTap:
        """Begin to look at one attempt at the next turn."""
        if self._unread:
            self.read_on()
        if not self._taken:
            # Nothing of an attempt before it was shown: the answer is named by the one that is.
            self._message = None
        return MessagesTap(self, len(self._taken), self._event_bytes)

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, MessagesTap)
        self._taken.append(tap.summarize())
        self._unread.append(tap)
        self._left_open += tap.blocks.end_open_blocks()

    @property
    def shown_blocks(self) -> int:
        """How many blocks the client was shown of the turns that are part of the answer."""
        return self._taken[-1].next_block if self._taken else 0

    def call_id(self, turn: int, ordinal: int) -> str:
        """Make up an id for a call that came without one."""
        return self._ids.make((self._message or {}).get("id"), turn, ordinal)

    def adopt(self, message: Json) -> None:
        """Take the message of the first message_start; it stays the answer's."""
        if self._message is None:
            self._message = message

    def close_blocks(self) -> bytes:
        """Return, once, the ends of blocks that the first turn left open."""
        ends, self._left_open = self._left_open, b""
        return ends

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._taken.clear()
        self._unread.clear()

    def heartbeat(self) -> bytes:
        """Return a ping; before the message has begun, a bare comment line."""
        return b": wait\n" if self._message is None or self.settling else PING

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the end of the answer: turn 1's own bytes, or one end for all turns."""
        last = self._taken[-1]
        neutral_finish = neutral_finish or last.hides_its_reason
        if len(self._taken) == 1 and not neutral_finish:
            return last.tail
        # The protocol ends every block before the message.
        event = last.closing(neutral_finish)
        if len(self._taken) > 1:
            event["usage"] = total_usage((turn.model, turn.usage) for turn in self._taken)
        return self.close_blocks() + write_event(event) + STOP


class MessagesTap(RecordedStreamTap):
    """Looks at one turn's frames: turn 1 passes byte for byte, later turns are fitted on."""

    __slots__ = (
        "_begun",
        "_end",
        "_new_id",
        "_splice",
        "_withheld",
        "blocks",
        "model",
        "stop_reason",
        "usage",
    )

    _read_error = staticmethod(read_disguised_error)

    def __init__(self, splice: MessagesStream, turn: int, event_bytes: int) -> None:
        super().__init__(turn, splice.server_tools, event_bytes)
        self._splice = splice
        self._new_id = partial(splice.call_id, turn)
        self.blocks = Blocks(splice.server_tools, self._new_id, splice.shown_blocks, event_bytes)
        self.blocks.moved = self._joined
        self.blocks.gap = self._joined and splice.text_shown
        self._recorded: RecordedMessagesTurn | None = None
        self._begun = False
        self._withheld = 0
        self._end: Json = {}
        self.model: object = None
        self.usage: Json = {}
        self.stop_reason: str | None = None

    @property
    def seen(self) -> bool:
        """Whether the turn has begun: a later one that said nothing yet is lost without harm."""
        return self._fed and (not self._joined or self._begun or self.ended)

    @property
    def continuable(self) -> bool:
        """Whether a follow-up could be joined on: the end is withheld and the tape whole."""
        return self.stop_reason is not None and self._tape.whole and not self._said_more

    @property
    def hides_its_reason(self) -> bool:
        """Whether it ended for calls that nobody sees."""
        return self.stop_reason == CALL and self.blocks.hides_all_calls

    def summarize(self) -> FinishedMessagesTurn:
        """Return what the rest of the answer takes of it."""
        return FinishedMessagesTurn(
            tail=b"".join(self.tail),
            end=self._end,
            stop_reason=self.stop_reason,
            hides_its_reason=self.hides_its_reason,
            model=self.model,
            usage=self.usage,
            next_block=self.blocks.next,
        )

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what the client may see now."""
        batch = self._framer.batch(data)
        if not batch:
            return b""
        self._fed = True
        # The first event tells the message, or an error in disguise.
        return self._pass(batch) if self._looked else self._judge(batch)

    def close(self) -> bytes:
        """Take the end of the bytes; a turn without its stop reason was cut short."""
        rest = self._framer.flush()
        data = data_of(rest)
        # What is left has no empty line after it; half an event is no event to any client.
        is_whole = data is not None and read_event(data) is not None
        shown = self._judge(rest) if is_whole else b""
        if not self.ended and self.stop_reason is None:
            raise UpstreamBroke("The upstream's answer ended before it was finished.")
        self.ended = self._fed = True
        return shown + self._settle()

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        stop, tools = stop_of(self.stop_reason), self._tools
        # The tape is read only for calls: most turns make none.
        recorded = self.read_turn() if self.blocks.calls else RecordedMessagesTurn()
        calls_clients = bool(recorded.client_call_ids(tools))
        return TurnEnd(
            stop=stop,
            server_calls=recorded.server_calls(tools) if self.continuable else (),
            client_calls=calls_clients if recorded.calls else stop is Stop.TOOL_CALLS,
            usage=usage_of(self.usage),
            spoke=self._spoke or not self._joined,
            continuable=self.continuable,
        )

    def usage_so_far(self) -> Usage | None:
        """Return what was reported until now: the input at the beginning."""
        usage = usage_of(self.usage)
        # A translated stream begins with zeros, since its upstream reports at the end.
        return usage if usage is not None and usage.input else None

    def read_turn(self) -> RecordedMessagesTurn:
        """Read the tape."""
        if self._recorded is None:
            self._recorded = record_events(self._events(), self._new_id)
        return self._recorded

    def _pass(self, batch: bytes) -> bytes:
        """Let a plain batch through untouched; this is the hot path."""
        # It saves splitting and parsing every frame, nearly all of a stream's cost. A word found in
        # a text only means that the batch is judged, which is always right; test_taps_twins.py
        # shows that both show the same.
        if self._reads_all:
            return self._judge(batch)
        is_usual = batch.startswith(USUAL) and batch.find(b"\n\n") == len(batch) - 2
        if not is_usual and (BLOCK in batch or MESSAGE in batch or ERROR in batch):
            return self._judge(batch)
        if not is_usual and any(name in batch for name in NAMED):
            return self._judge(batch)
        self._tape.record(batch)
        return batch

    def _judge(self, batch: bytes) -> bytes:
        return b"".join([self._frame(frame) for frame in split(batch)])

    def _frame(self, frame: bytes) -> bytes:
        if self.ended:
            return b""
        self._tape.record(frame)
        # A delta changes nothing that is kept here beside the tape: its beginning saves parsing it.
        if self._looked and not self._reads_all and frame.startswith(USUAL):
            return frame
        data = data_of(frame)
        event = read_named(frame, data) if data is not None else None
        if data is None or event is None:
            return self._unread(frame)
        if is_error(event):
            return self._fail(data)
        return self._event(event, frame)

    def _unread(self, frame: bytes) -> bytes:
        """Leave what cannot be read in its place; its name tells whether it is the end."""
        name = event_name(frame)
        if name == "error":
            return self._fail(b"")
        # A damaged last event still ends the message, for clients go by its name.
        if name == "message_stop":
            return self._event({"type": name}, STOP)
        return self._keep_place(frame)

    def _event(self, event: Json, frame: bytes) -> bytes:
        match event.get("type"):
            case "message_start":
                return self._begin(event, frame)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                return self._block(event, frame)
            case "message_delta":
                return self._count(event, frame)
            case "message_stop":
                self.ended = True
                self._withhold(frame)
                return self._settle()
        return self._keep_place(frame)

    def _begin(self, event: Json, frame: bytes) -> bytes:
        """Take the message; the client has seen that of the first turn."""
        message = part_of(event, "message")
        self._looked = True
        self._splice.adopt(message)
        self.model = message.get("model")
        self.usage = update_usage(self.usage, part_of(message, "usage"))
        # Usually none, but the protocol allows content in the start.
        blocks = blocks_of(event)
        if not blocks:
            return b"" if self._joined else frame
        return self._begin_with(blocks, event, frame)

    def _begin_with(self, blocks: list[Json], event: Json, frame: bytes) -> bytes:
        """Take blocks that the message begins with; they stay there, if nothing has to change."""
        events = [piece for at, block in enumerate(blocks) for piece in unroll_block(block, at)]
        tools = self._tools
        if not self._joined and not any(needs_sifting(block, tools) for block in blocks):
            for piece in events:
                self.blocks.note(piece)
            return frame
        if not self._joined:
            frame = write_event({**event, "message": {**part_of(event, "message"), "content": []}})
        shown = b"".join([self._block(piece, write_event(piece)) for piece in events])
        return shown if self._joined else frame + shown

    def _block(self, event: Json, frame: bytes) -> bytes:
        self._looked = self._begun = True
        self._spoke = self._spoke or (self._joined and speaks(event))
        if not self._sifts:
            return self._pass_event(event, frame)
        shown = self.blocks.take(event, frame)
        self._reads_all = self._reads_all or self.blocks.moved
        # What turn 1 left open is closed as late as this: it may never be needed.
        return self._splice.close_blocks() + shown if shown else b""

    def _pass_event(self, event: Json, frame: bytes) -> bytes:
        """Leave an event as and where it is."""
        if self.stop_reason is None:
            self.blocks.note(event)
            return frame
        # Content after the stop reason is relayed, but a follow-up would come before it.
        self._said_more = self._said_more or event["type"] != END
        return self._withhold(frame)

    def _count(self, event: Json, frame: bytes) -> bytes:
        """Take what ends the message; before there is a reason, it only counts tokens."""
        delta = update_usage(part_of(self._end, "delta"), part_of(event, "delta"))
        self._end = {**self._end, **event, "delta": delta}
        # Counts are of the whole turn, so the last one told is right.
        self.usage = update_usage(self.usage, part_of(event, "usage"))
        if reason := as_text(delta.get("stop_reason")):
            self.stop_reason = reason
            self._reads_all = True
            return self._withhold(frame)
        return b"" if self._joined else frame

    def _keep_place(self, frame: bytes) -> bytes:
        """Show what is of no kind we know, unless it stands in the tail."""
        return frame if self.stop_reason is None else self._withhold(frame)

    def _withhold(self, frame: bytes) -> bytes:
        self.tail.append(frame)
        self._withheld += len(frame)
        if self._withheld > self._limit:
            raise UpstreamBroke("The upstream did not come to an end after its stop reason.")
        return b""

    def _settle(self) -> bytes:
        """Show what is left of blocks; a turn that passes as it is has nothing left."""
        return self.blocks.settle() if self._sifts else b""
