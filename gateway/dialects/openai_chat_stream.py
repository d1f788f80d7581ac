"""Chat Completions as a stream: the tap on one turn, and the splice of n turns."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.core.additions import AnsweredTurn
from gateway.core.model import Asked, Stop, TurnEnd
from gateway.dialects.base import Tap
from gateway.dialects.openai_chat_turn import (
    Call,
    Json,
    Recorded,
    calls_of,
    first_choice,
    function_of,
    index_of,
    is_error,
    part_of,
    read_object,
    record_deltas,
    said,
    stop_of,
    summed,
    usage_of,
)
from gateway.dialects.tape import Tape
from gateway.errors import UpstreamBroke, UpstreamError
from gateway.sse import Framer, data_of, encode, split

DONE = b"[DONE]"
ENVELOPE = ("id", "object", "created", "model", "system_fingerprint")
SMALL = 1024
# How most upstreams end a chunk that does not end the turn; seen once, it is known by its end.
OPEN = b'"finish_reason":null'
LONGEST_END = 40
DELTA = b'"delta"'
ERROR = b'"error"'
# A finish reason in the two spacings that JSON writers use. Any other is still relayed rightly;
# it just cannot be withheld any more, so nothing is joined on after it.
FINISHES = b'"finish_reason":"'
FINISHES_SPACED = b'"finish_reason": "'
TOOL_CALLS = b'"tool_calls"'
REFUSAL = b'"refusal":"'


class ChatStream:
    """Makes one stream out of n: one envelope, one role, one finish, one usage, one [DONE]."""

    content_type = b"text/event-stream; charset=utf-8"

    __slots__ = (
        "_beat",
        "_event_bytes",
        "_taken",
        "_wants_usage",
        "choices",
        "envelope",
        "next_call",
        "server_tools",
        "text_shown",
    )

    def __init__(self, asked: Asked, server_tools: frozenset[str], event_bytes: int) -> None:
        self.choices = asked.choices
        self.server_tools = server_tools
        self.envelope: Json | None = None
        self.text_shown = False
        self.next_call = 0
        self._wants_usage = asked.wants_usage
        self._event_bytes = event_bytes
        self._taken: list[ChatTap] = []
        self._beat = b""

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""
        return not content_type or content_type.startswith(b"text/event-stream")

    def tap(self) -> ChatTap:
        """Begin to look at one attempt at the next turn."""
        if self._taken:
            # Only now is it worth reading the tape of a turn that passed unread.
            self.text_shown = any(tap.recorded().text for tap in self._taken)
        return ChatTap(self, joined=bool(self._taken), event_bytes=self._event_bytes)

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer."""
        assert isinstance(tap, ChatTap)
        self._taken.append(tap)

    def adopt(self, chunk: Json) -> None:
        """Take the envelope of the first chunk; it stays the answer's."""
        if self.envelope is None:
            self.envelope = {name: chunk[name] for name in ENVELOPE if name in chunk}

    def chunk(self, delta: Json, finish: str | None = None) -> bytes:
        """Make a chunk of this answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return encode(msgspec.json.encode({**(self.envelope or {}), "choices": [choice]}))

    def heartbeat(self) -> bytes:
        """Return a chunk that says nothing; before there is an envelope, a bare comment line."""
        if self.envelope is None:
            return b": wait\n"
        if not self._beat:
            self._beat = self.chunk({})
        return self._beat

    def tail(self, plainly: bool) -> bytes:
        """Return the end of the answer: turn 1's own bytes, or one end for all turns."""
        last = self._taken[-1]
        if len(self._taken) == 1 and not plainly:
            return b"".join(last.tail)
        end = self.chunk({}, "stop" if plainly else last.finish or "stop")
        usage = summed(tap.usage for tap in self._taken)
        if self._wants_usage and usage:
            totals = {**(self.envelope or {}), "choices": [], "usage": usage}
            end += encode(msgspec.json.encode(totals))
        return end + encode(DONE)


class ChatTap:
    """Looks at one turn's frames: turn 1 passes byte for byte, later turns are fitted on."""

    __slots__ = (
        "_calls",
        "_framer",
        "_joined",
        "_looked",
        "_recorded",
        "_said_more",
        "_said_text",
        "_splice",
        "_spoke",
        "_tail_limit",
        "_tape",
        "_usual_end",
        "ended",
        "failure",
        "finish",
        "seen",
        "tail",
        "usage",
    )

    def __init__(self, splice: ChatStream, joined: bool, event_bytes: int) -> None:
        self._splice = splice
        self._joined = joined
        self._framer = Framer(event_bytes)
        self._tape = Tape(event_bytes)
        self._tail_limit = event_bytes
        self._calls: dict[object, Call] = {}
        self._recorded: Recorded | None = None
        self._looked = False
        self._usual_end = b""
        self._said_more = False
        self._said_text = False
        self._spoke = False
        self.tail: list[bytes] = []
        self.finish: str | None = None
        self.usage: Json | None = None
        self.failure: UpstreamError | None = None
        self.seen = False
        self.ended = False

    @property
    def continuable(self) -> bool:
        """Whether a follow-up could be joined on: the end is withheld and the tape whole."""
        return (
            self.finish is not None
            and self._tape.whole
            and not self._said_more
            and self._splice.choices == 1
        )

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what the client may see now."""
        batch = self._framer.batch(data)
        if not batch:
            return b""
        self.seen = True
        if self._looked:
            return self._pass(batch)
        # The first frame tells the envelope, or an error in disguise; the rest may be plain.
        cut = batch.find(b"\n\n") + 2
        head, rest = (batch[:cut], batch[cut:]) if cut > 1 else (batch, b"")
        return self._judge(head) + (self.feed_rest(rest) if rest else b"")

    def feed_rest(self, batch: bytes) -> bytes:
        """Take the frames after the first one of a batch."""
        return self._pass(batch) if self._looked else self._judge(batch)

    def close(self) -> bytes:
        """Take the end of the bytes; a turn without its finish was cut short."""
        rest = self._framer.flush()
        data = data_of(rest) if rest else None
        if data is not None and data != DONE and read_object(data) is None:
            raise UpstreamBroke("The upstream's answer broke off inside an event.")
        shown = self._judge(rest) if rest else b""
        if not self.ended and self.finish is None and not self._ended_otherwise():
            raise UpstreamBroke("The upstream's answer ended before it was finished.")
        self.ended = self.seen = True
        return shown

    def end(self) -> TurnEnd:
        """Say what the turn came to."""
        stop = stop_of(self.finish)
        if stop is Stop.STOP and self._tape.contains(REFUSAL) and self.recorded().refusal:
            stop = Stop.FILTER
        server = tuple(call.whole() for call in self._calls.values() if call.server)
        return TurnEnd(
            stop=stop,
            server_calls=server if self.continuable else (),
            client_calls=self._has_client_calls(stop, bool(server)),
            usage=usage_of(self.usage),
            spoke=self._spoke or not self._joined,
            continuable=self.continuable,
        )

    def answered(self) -> AnsweredTurn:
        """Rebuild the assistant's turn from the tape."""
        return AnsweredTurn(self.recorded().message())

    def text(self) -> str:
        """Return the text the turn said."""
        return self.recorded().text

    def recorded(self) -> Recorded:
        """Read the tape."""
        if self._recorded is None:
            chunks = (read_object(data) for data in self._datas())
            deltas = (part_of(first_choice(chunk), "delta") for chunk in chunks if chunk)
            self._recorded = record_deltas(deltas)
        return self._recorded

    def _datas(self) -> Iterator[bytes]:
        for batch in self._tape.batches:
            for frame in split(batch):
                data = data_of(frame)
                if data is not None:
                    yield data

    def _has_client_calls(self, stop: Stop, server: bool) -> bool:
        if self._calls:
            return any(not call.server for call in self._calls.values())
        if stop is Stop.TOOL_CALLS and not server:
            return True
        return self._tape.contains(TOOL_CALLS) and bool(self.recorded().calls)

    def _ended_otherwise(self) -> bool:
        """Whether the last thing said was a finish that could not be withheld."""
        last = None
        for data in self._datas():
            last = data
        chunk = read_object(last) if last else None
        return bool(chunk and first_choice(chunk).get("finish_reason"))

    def _pass(self, batch: bytes) -> bytes:
        """Let a plain batch through untouched; this is the hot path."""
        if self._joined or self.finish is not None:
            return self._judge(batch)
        if self._splice.server_tools and TOOL_CALLS in batch:
            return self._judge(batch)
        if self._usual_end and batch.endswith(self._usual_end):
            self._tape.record(batch)
            return batch
        looked_at = batch
        if len(batch) > SMALL:
            # Nothing but the tail follows a finish, so the last frame tells of the whole batch.
            looked_at = batch[batch.rfind(b"\n\n", 0, -2) + 2 :]
            if DELTA not in looked_at:
                return self._judge(batch)
        if FINISHES in looked_at or FINISHES_SPACED in looked_at:
            return self._judge(batch)
        if DONE in looked_at or ERROR in looked_at:
            return self._judge(batch)
        self._tape.record(batch)
        return batch

    def _judge(self, batch: bytes) -> bytes:
        return b"".join([self._frame(frame) for frame in split(batch)])

    def _frame(self, frame: bytes) -> bytes:
        if self.ended:
            return b""
        self._tape.record(frame)
        data = data_of(frame)
        chunk = read_object(data) if data is not None else None
        if data == DONE:
            self.ended = True
            return self._keep_place(frame)
        if data is None or chunk is None:
            return self._keep_place(frame)
        if is_error(chunk):
            return self._fail(data)
        if not self._looked:
            self._look(chunk, data)
        if self._splice.choices != 1:
            return frame
        return self._chunk(chunk, frame)

    def _fail(self, data: bytes) -> bytes:
        """Take an error; what came before it in the same read is still to be shown."""
        if not self._looked:
            raise said(data)
        self.failure = said(data)
        self.ended = True
        return b""

    def _look(self, chunk: Json, data: bytes) -> None:
        """Take the envelope of the first chunk, and how it ends."""
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
        if len(self.tail) > 64 and sum(map(len, self.tail)) > self._tail_limit:
            raise UpstreamBroke("The upstream did not come to an end after its finish.")
        return b""

    def _chunk(self, chunk: Json, frame: bytes) -> bytes:
        choice = first_choice(chunk)
        delta = part_of(choice, "delta")
        in_tail = self.finish is not None
        self._note_end(chunk, choice)
        if self._joined:
            return self._fit(choice, delta)
        sifted = self._sift(delta)
        if in_tail:
            self._said_more = self._said_more or _speaks(delta)
            return self._withhold(frame)
        if self.finish is not None:
            return self._part(chunk, choice, delta, frame)
        if not sifted:
            return frame
        return encode(msgspec.json.encode(chunk)) if delta else b""

    def _note_end(self, chunk: Json, choice: Json) -> None:
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = usage
        if isinstance(finish := choice.get("finish_reason"), str) and self.finish is None:
            self.finish = finish

    def _part(self, chunk: Json, choice: Json, delta: Json, frame: bytes) -> bytes:
        """Show the content that rides on a finish, and withhold the finish."""
        if not _speaks(delta):
            return self._withhold(frame)
        shown = {name: value for name, value in chunk.items() if name != "usage"}
        shown["choices"] = [{**choice, "finish_reason": None}]
        rest = {**chunk, "choices": [{**choice, "delta": {}}]}
        self._withhold(encode(msgspec.json.encode(rest)))
        return encode(msgspec.json.encode(shown))

    def _fit(self, choice: Json, delta: Json) -> bytes:
        """Write a later turn's delta as part of the answer."""
        self._spoke = self._spoke or _speaks(delta)
        self._sift(delta)
        said = {name: value for name, value in delta.items() if name != "role"}
        if not _speaks(said):
            return b""
        before = b""
        if delta.get("content"):
            if self._splice.text_shown and not self._spoke_text():
                before = self._splice.chunk({"content": "\n\n"})
            self._splice.text_shown = True
        return before + self._splice.chunk(said)

    def _spoke_text(self) -> bool:
        spoke, self._said_text = self._said_text, True
        return spoke

    def _sift(self, delta: Json) -> bool:
        """Take calls to server tools out of a delta, and number the others without gaps."""
        fragments = calls_of(delta)
        # Without server tools most of turn 1 passes unread: its numbers and ids are right already.
        if not fragments or not (self._joined or self._splice.server_tools):
            return False
        kept, changed = [], self._joined
        for fragment in fragments:
            call, renamed = self._call(fragment)
            changed = changed or renamed or call.server
            if not call.server:
                kept.append(fragment)
        if kept:
            delta["tool_calls"] = kept
        else:
            del delta["tool_calls"]
        return changed

    def _call(self, fragment: Json) -> tuple[Call, bool]:
        """Find or begin a fragment's call; number and name the fragment as the client sees it."""
        index = index_of(fragment, len(self._calls))
        function = function_of(fragment)
        call = self._calls.get(index)
        changed = False
        if call is None:
            call = self._begin_call(index, fragment, function)
            changed = fragment.get("id") != call.id
            fragment["id"] = call.id
        call.arguments.append(function.get("arguments") or "")
        if not call.server and fragment.get("index") != call.shown_as:
            fragment["index"], changed = call.shown_as, True
        return call, changed

    def _begin_call(self, index: object, fragment: Json, function: Json) -> Call:
        name = function.get("name") or ""
        answer = (self._splice.envelope or {}).get("id", "call")
        made = f"call_{answer}_{len(self._calls)}_{self._splice.next_call}"
        call = Call(fragment.get("id") or made, name, name in self._splice.server_tools)
        if not call.server:
            call.shown_as = self._splice.next_call
            self._splice.next_call += 1
        self._calls[index] = call
        return call


def _speaks(delta: Json) -> bool:
    """Whether a delta says anything beside who speaks."""
    return any(value not in (None, "", [], {}) for name, value in delta.items() if name != "role")
