"""Chat Completions as a stream: the tap on one turn, and the splice of n turns.

A tap is fed whatever the upstream sends, cut anywhere, and returns whole frames. Turn 1 passes byte
for byte, most of it unread; later turns are written anew under turn 1's envelope. A tap may hold
back three things only: the tail, from the finish on, since a follow-up may be joined on instead of
it; calls to server tools, which the client never sees; and call fragments while their tool's name
may still become that of a server tool. The tape records what passed, within a bound, so that the
turn can be rebuilt for a follow-up. Invariants: any split of the input shows the same bytes; what
was shown is never taken back; one turn that called no server tool ends with its own bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from gateway.dialects.events import (
    DONE,
    Json,
    RecordedStreamTap,
    StreamSplice,
    part_of,
    read_event,
    sum_usage,
    text_in,
)
from gateway.dialects.openai_chat.turn import (
    Calls,
    RecordedChatTurn,
    Sifter,
    finish_of,
    first_choice,
    is_error,
    read_disguised_error,
    record_deltas,
    speaks,
    stop_of,
    usage_of,
)
from gateway.dialects.protocol import Tap
from gateway.errors import UpstreamBroke
from gateway.exchange.model import ModelRequest, Stop, TurnEnd
from gateway.wire.sse import encode, split_events

ENVELOPE = ("id", "object", "created", "model", "system_fingerprint")
# Of a batch larger than this only the last frame is searched: a search costs by the byte.
SMALL = 1024
# How most upstreams end a chunk that does not end the turn; seen once, it is known by its end.
OPEN = b'"finish_reason":null'
LONGEST_END = 40
DELTA, ERROR = b'"delta"', b'"error"'
USAGE, USAGE_SPACED = b'"usage":{', b'"usage": {'
# In the two spacings JSON writers use; any other is relayed, but nothing is joined on after it.
FINISHES = b'"finish_reason":"'
FINISHES_SPACED = b'"finish_reason": "'
TOOL_CALLS, REFUSAL = b'"tool_calls"', b'"refusal":"'


class FinishedChatTurn(msgspec.Struct, frozen=True, gc=False):
    """What the end of an answer takes of a turn that is part of it."""

    tail: bytes
    finish: str | None
    usage: Json | None
    hides_its_reason: bool


class ChatStream(StreamSplice):
    """Makes one stream out of n: one envelope, one role, one finish, one usage, one [DONE]."""

    __slots__ = ("_beat", "_taken", "_wants_usage", "choices", "envelope", "shown_calls")

    def __init__(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> None:
        super().__init__(asked, server_tools if asked.choices == 1 else frozenset(), event_bytes)
        self.choices = asked.choices
        self.envelope: Json | None = None
        self.shown_calls = 0
        self._wants_usage = asked.wants_usage
        self._taken: list[FinishedChatTurn] = []
        self._beat = b""

    def tap(self) -> ChatTap:
        """Begin to look at one attempt at the next turn."""
        if self._unread:
            self.read_on()
        if not self._taken:
            # Nothing of an attempt before it was shown: the answer is named by the one that is.
            self.envelope, self._beat = None, b""
        return ChatTap(self, len(self._taken), self._event_bytes)

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, ChatTap)
        tail = b"".join(tap.tail)
        self._taken.append(FinishedChatTurn(tail, tap.finish, tap.usage, tap.hides_its_reason))
        self._unread.append(tap)
        self.shown_calls += tap.shown_calls

    def call_id(self, turn: int, ordinal: int) -> str:
        """Make up an id for a call that came without one."""
        return self._ids.make((self.envelope or {}).get("id"), turn, ordinal)

    def adopt(self, chunk: Json) -> None:
        """Take the envelope of the first chunk; it stays the answer's."""
        if self.envelope is None:
            self.envelope = {name: chunk[name] for name in ENVELOPE if name in chunk}

    def chunk(self, delta: Json, finish: str | None = None) -> bytes:
        """Make a chunk of this answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return encode(msgspec.json.encode({**(self.envelope or {}), "choices": [choice]}))

    def forget(self) -> None:
        """Let go of the turns: the answer is over."""
        self._unread.clear()

    def heartbeat(self) -> bytes:
        """Return a chunk that says nothing; before there is an envelope, a bare comment line."""
        # A chunk needs the answer's id, which nobody knows yet; a comment needs nothing.
        if self.envelope is None or self.settling:
            return b": wait\n"
        if not self._beat:
            self._beat = self.chunk({})
        return self._beat

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the end of the answer: turn 1's own bytes, or one end for all turns."""
        self._unread.clear()
        last = self._taken[-1]
        neutral_finish = neutral_finish or last.hides_its_reason
        if len(self._taken) == 1 and not neutral_finish:
            return last.tail
        end = self.chunk({}, "stop" if neutral_finish else last.finish or "stop")
        # The protocol has this chunk, which is without choices, only for who asked for it.
        usage = sum_usage(turn.usage for turn in self._taken)
        if self._wants_usage and usage:
            totals = {**(self.envelope or {}), "choices": [], "usage": usage}
            end += encode(msgspec.json.encode(totals))
        return end + encode(DONE)


class ChatTap(RecordedStreamTap):
    """Looks at one turn's frames: turn 1 passes byte for byte, later turns are fitted on."""

    __slots__ = ("_said_text", "_sifter", "_splice", "_usual_end", "finish", "usage")

    _read_error = staticmethod(read_disguised_error)

    def __init__(self, splice: ChatStream, turn: int, event_bytes: int) -> None:
        super().__init__(turn, splice.server_tools, event_bytes)
        self._splice = splice
        self._sifter: Sifter | None = None
        self._recorded: RecordedChatTurn | None = None
        self._usual_end = b""
        self._said_text = False
        self.finish: str | None = None
        self.usage: Json | None = None
        # Of several choices none is known to be the last one to end: the usage may come any time.
        self._reads_all |= splice.hides_usage and splice.choices != 1

    @property
    def seen(self) -> bool:
        """Whether the turn has begun: a later one that said nothing yet is lost without harm."""
        return self._fed and (not self._joined or self._spoke or self.ended)

    @property
    def continuable(self) -> bool:
        """Whether a follow-up could be joined on: the end is withheld and the tape whole."""
        is_withheld = self.finish is not None and not self._said_more
        return is_withheld and self._tape.whole and self._splice.choices == 1

    @property
    def shown_calls(self) -> int:
        """How many calls the client sees of a turn whose calls were sifted."""
        return self._sifter.shown if self._sifter else 0

    @property
    def hides_its_reason(self) -> bool:
        """Whether it ended for calls that nobody sees."""
        return self._sifter is not None and self._sifter.hides_all and self.finish == "tool_calls"

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what the client may see now."""
        batch = self._framer.batch(data)
        if not batch:
            return b""
        self._fed = True
        if self._looked:
            # The fast twin of `_judge`; test_taps_twins.py shows that both show the same.
            return self._pass(batch)
        # The first frame tells the envelope, or an error in disguise; the rest may be plain.
        cut = batch.find(b"\n\n") + 2
        head, rest = (batch[:cut], batch[cut:]) if cut > 1 else (batch, b"")
        shown = self._judge(head)
        return shown + (self._pass(rest) if rest and self._looked else self._judge(rest))

    def close(self) -> bytes:
        """Take the end of the bytes; a turn without its finish was cut short."""
        rest = self._flush()
        shown = self._judge(rest) if rest else b""
        # Read only if need be: a finish that could not be withheld.
        late = (finish_of(first_choice(chunk)) for chunk in self._events())
        if not self.ended and self.finish is None and not any(late):
            raise UpstreamBroke("The upstream's answer ended before it was finished.")
        self.ended = self._fed = True
        return shown + self._settle_late()

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        stop = stop_of(self.finish)
        # Refusals end with `stop` like any text; only the tape tells, so it is searched first.
        if stop is Stop.STOP and self._tape.contains(REFUSAL) and self.read_turn().refusal:
            stop = Stop.FILTER
        # The search saves reading the tape of a turn without calls (test_taps_twins.py); where
        # calls are sifted, it is known whether there were any.
        may_call = self._sifter is not None if self._sifts else self._tape.contains(TOOL_CALLS)
        recorded = self.read_turn() if may_call else RecordedChatTurn()
        tools = self._tools
        return TurnEnd(
            stop=stop,
            server_calls=recorded.server_calls(tools) if self.continuable else (),
            client_calls=self._has_client_calls(stop, recorded),
            usage=usage_of(self.usage),
            spoke=self._spoke or not self._joined,
            continuable=self.continuable,
        )

    def read_turn(self) -> RecordedChatTurn:
        """Read the tape."""
        if self._recorded is None:
            deltas = (part_of(first_choice(chunk), "delta") for chunk in self._events())
            self._recorded = record_deltas(deltas, self._new_calls())
        return self._recorded

    def _new_calls(self) -> Calls:
        return Calls(self._tools, partial(self._splice.call_id, self._turn))

    def _has_client_calls(self, stop: Stop, recorded: RecordedChatTurn) -> bool:
        if not recorded.calls:
            # Calls of a form that is not known are the client's to answer.
            return stop is Stop.TOOL_CALLS
        return bool(recorded.client_calls(self._tools)) or recorded.legacy

    def _pass(self, batch: bytes) -> bytes:
        """Let a plain batch through untouched; this is the hot path."""
        # It saves splitting and parsing every frame, nearly all of a stream's cost. Each word that
        # is searched for may stand in a text too: then the batch is judged, which is always right.
        if self._reads_all or (self._sifts and batch.find(TOOL_CALLS) >= 0):
            return self._judge(batch)
        if self._usual_end and batch.endswith(self._usual_end):
            # One comparison at the end of the batch, for upstreams that write the finish last.
            self._tape.record(batch)
            return batch
        looked_at = batch
        if len(batch) > SMALL:
            # Only the tail follows a finish, some with usage in a chunk like any other.
            looked_at = batch[batch.rfind(b"\n\n", 0, -2) + 2 :]
            if DELTA not in looked_at or USAGE in looked_at or USAGE_SPACED in looked_at:
                return self._judge(batch)
        if FINISHES in looked_at or FINISHES_SPACED in looked_at:
            return self._judge(batch)
        if DONE in looked_at or ERROR in looked_at:
            return self._judge(batch)
        self._tape.record(batch)
        return batch

    def _judge(self, batch: bytes) -> bytes:
        return b"".join([self._frame(frame, data) for frame, data in split_events(batch)])

    def _frame(self, frame: bytes, data: bytes | None) -> bytes:
        if self.ended:
            # [DONE] ends the stream for every client: what follows it would not be read.
            return b""
        self._tape.record(frame)
        if data is not None and data.strip() == DONE:
            self.ended = True
            return self._settle_late() + self._keep_place(frame)
        chunk = read_event(data) if data is not None else None
        if data is None or chunk is None:
            return self._keep_place(frame)
        if is_error(chunk):
            return self._fail(data)
        if not self._looked:
            self._look(chunk, data)
        if self._splice.hides_usage and _tells_only_usage(chunk):
            self.usage = chunk["usage"]
            return b""
        if self._splice.choices != 1:
            # Choices are mixed and end one by one: they pass, and nothing is ever joined on.
            return frame
        return self._chunk(chunk, frame)

    def _look(self, chunk: Json, data: bytes) -> None:
        """Take the envelope of the first chunk, and how it ends."""
        if not (chunk.get("id") or chunk.get("choices")):
            # Some upstreams tell of the prompt first, in the name of no answer.
            return
        self._looked = True
        self._splice.adopt(chunk)
        at = data.rfind(OPEN)
        if 0 <= at > len(data) - LONGEST_END:
            self._usual_end = data[at:] + b"\n\n"

    def _keep_place(self, frame: bytes) -> bytes:
        """Show what is not a chunk, unless it stands in the tail."""
        if self.finish is None or self._splice.choices != 1:
            # Without a withheld finish before it, even a [DONE] has nothing to wait for.
            return b"" if self._joined and self.ended else frame
        return self._withhold(frame)

    def _withhold(self, frame: bytes) -> bytes:
        self.tail.append(frame)
        if len(self.tail) > 64 and sum(map(len, self.tail)) > self._limit:
            raise UpstreamBroke("The upstream did not come to an end after its finish.")
        return b""

    def _chunk(self, chunk: Json, frame: bytes) -> bytes:
        choice = first_choice(chunk)
        delta = part_of(choice, "delta")
        in_tail = self.finish is not None
        self._note_end(chunk, choice)
        self._spoke = self._spoke or (self._joined and speaks(delta))
        # Sifted before the finish is settled: a finish may ride on the last fragment of a call.
        before, changed = self._sift(delta, len(frame))
        if self.finish is not None and not in_tail:
            before += self._settle()
        if self._joined:
            return before + self._fit(delta)
        if changed:
            # All of it was a call of ours: an empty chunk would only wake the client.
            if not delta and self.finish is None:
                return before
            frame = encode(msgspec.json.encode(chunk))
        if in_tail:
            self._said_more = self._said_more or bool(before) or speaks(delta)
            return self._withhold(before + frame)
        if self.finish is not None:
            rides = bool(delta) if changed else speaks(delta)
            return before + (self._part(chunk, choice) if rides else self._withhold(frame))
        return before + frame

    def _note_end(self, chunk: Json, choice: Json) -> None:
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = usage
        if self.finish is None and (finish := finish_of(choice)) is not None:
            self.finish = finish
            self._reads_all = True

    def _part(self, chunk: Json, choice: Json) -> bytes:
        """Show the content that rides on a finish, and withhold the finish."""
        shown, rest = _split_finish(chunk, choice)
        self._withhold(encode(msgspec.json.encode(rest)))
        return encode(msgspec.json.encode(shown))

    def _fit(self, delta: Json) -> bytes:
        """Write a later turn's delta as part of the answer."""
        # The role belongs to the first delta of an answer, and turn 1 has told it.
        said = {name: value for name, value in delta.items() if name != "role"}
        if not speaks(said):
            return b""
        apart = b""
        if text_in(delta.get("content")):
            if self._splice.text_shown and not self._said_text:
                apart = self._splice.chunk({"content": "\n\n"})
            self._said_text = True
        return apart + self._splice.chunk(said)

    def _sift(self, delta: Json, size: int) -> tuple[bytes, bool]:
        """Take calls to server tools out of a delta; return what is shown before it instead."""
        if not self._sifts or not delta.get("tool_calls"):
            return b"", False
        if self._sifter is None:
            self._sifter = Sifter(self._new_calls(), self._splice.shown_calls, self._limit)
            self._reads_all = True
        before, changed = self._sifter.sift(delta, size)
        return self._write_fragments(before), changed

    def _settle(self) -> bytes:
        """Show what was held of the client's calls: the names are whole."""
        return self._write_fragments(self._sifter.settle()) if self._sifter else b""

    def _settle_late(self) -> bytes:
        """Do so at the very end, for calls that began after the finish, or without one."""
        shown = self._settle()
        if not shown or self._joined or self.finish is None:
            return shown
        self._said_more = True
        return self._withhold(shown)

    def _write_fragments(self, fragments: Iterable[Json]) -> bytes:
        # One by one: clients join fragments of two chunks, but not always those of one.
        return b"".join([self._splice.chunk({"tool_calls": [f]}) for f in fragments])


def _tells_only_usage(chunk: Json) -> bool:
    """Whether a chunk tells what the answer cost, and nothing of the answer."""
    return not chunk.get("choices") and isinstance(chunk.get("usage"), dict)


def _split_finish(chunk: Json, choice: Json) -> tuple[Json, Json]:
    """Part the content that rides on a finish from the finish; each thing is told once."""
    shown = {name: value for name, value in chunk.items() if name != "usage"}
    likely = {"logprobs": None} if "logprobs" in choice else {}
    return (
        {**shown, "choices": [{**choice, "finish_reason": None}]},
        {**chunk, "choices": [{**choice, "delta": {}, **likely}]},
    )
