"""The blocks of a Messages turn as the client sees them: ours left out, the others in a row.

Blocks have numbers, and clients take them to come one after the other. Whatever an upstream does,
a block is shown from its beginning to its end before the next one: a block that begins while
another is under way waits for it, and one that never ends is ended by what follows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from gateway.dialects.anthropic_messages.turn import (
    END,
    START,
    ident_of,
    is_call,
    name_of,
    set_apart,
    text_in,
)
from gateway.dialects.events import Json, NewId, as_text, part_of
from gateway.dialects.raw_json import members_of, raw
from gateway.errors import UpstreamBroke
from gateway.wire.sse import data_of, encode

MOST_OPEN = 1000
NO_NUMBER = -1


@dataclass(slots=True, eq=False)
class _ShownBlock:
    """One block, from its beginning to its end."""

    hidden: bool = False
    number: int | None = None
    """What the client knows it by; None while it waits."""
    held: list[tuple[Json, bytes]] = field(default_factory=list)
    ended: bool = False


def write_event(event: Json) -> bytes:
    """Write an event under its name."""
    return encode(msgspec.json.encode(event), event["type"])


def renumber_event(frame: bytes, event: Json, number: int) -> bytes:
    """Write an event under another number; all else in it stays as it came, if that is JSON."""
    fields = members_of(data_of(frame) or b"")
    if not fields:
        return write_event({**event, "index": number})
    told = {**fields, "type": raw(event["type"]), "index": raw(number)}
    return encode(msgspec.json.encode(told), event["type"])


@dataclass(slots=True, eq=False)
class Blocks:
    """Numbers the blocks of one turn, and leaves out calls to server tools.

    As long as nothing has to change every event is shown just as it came, whether it was looked
    at or not; `moved` tells that from now on each one has to be.
    """

    _tools: frozenset[str]
    _new_id: NewId
    next: int
    """The number of the next block that is shown."""
    _limit: int
    calls: int = 0
    hidden: int = 0
    gap: bool = False
    """Whether the first text is to be set apart from that of the turns before it."""
    moved: bool = False
    _at: dict[str | None, _ShownBlock] = field(default_factory=dict)
    _open: _ShownBlock | None = None
    _waiting: deque[_ShownBlock] = field(default_factory=deque)
    _held: int = 0

    @property
    def hides_all_calls(self) -> bool:
        """Whether tools were called, and the client sees none of it."""
        return 0 < self.hidden == self.calls

    def note(self, event: Json) -> None:
        """Look at an event of a turn that passes as it is."""
        index = event.get("index")
        if event["type"] == START:
            self._count(part_of(event, "content_block"))
            number = index if isinstance(index, int) else None
            self._begin(as_text(index), _ShownBlock(number=number))
            if number is not None:
                self.next = max(self.next, number + 1)
        elif event["type"] == END:
            self._at.pop(as_text(index), None)

    def end_open_blocks(self) -> bytes:
        """Return the ends of the blocks that a turn which passed as it is did not end."""
        numbers = [block.number for block in self._at.values() if block.number is not None]
        return b"".join(write_event({"type": END, "index": number}) for number in numbers)

    def take(self, event: Json, frame: bytes) -> bytes:
        """Take an event as it came; return what the client sees of it now."""
        index = as_text(event.get("index"))
        if event["type"] == START:
            return self._end(self._at.pop(index, None)) + self._start(index, event, frame)
        block = self._at.get(index)
        if event["type"] == END:
            self._at.pop(index, None)
        if block is None:
            # It belongs to no block; where numbers changed, it might be taken for another's.
            return b"" if self.moved else frame
        shown = self._show(block, event, frame)
        return shown + self._leave(block) if event["type"] == END else shown

    def settle(self) -> bytes:
        """Return the rest: nothing more belongs to any block."""
        left = list(self._at.values())
        self._at.clear()
        return b"".join([self._end(block) for block in left])

    def _count(self, block: Json) -> bool:
        """Count a call; tell whether it is ours."""
        if not is_call(block):
            return False
        self.calls += 1
        ours = name_of(block) in self._tools
        self.hidden += ours
        return ours

    def _begin(self, index: str | None, block: _ShownBlock) -> None:
        self._at[index] = block
        if len(self._at) > MOST_OPEN:
            raise UpstreamBroke(f"The upstream left more than {MOST_OPEN} blocks open in one turn.")

    def _start(self, index: str | None, event: Json, frame: bytes) -> bytes:
        content = part_of(event, "content_block")
        block = _ShownBlock(hidden=self._count(content))
        self._begin(index, block)
        if block.hidden:
            self.moved = True
            return b""
        if is_call(content) and not ident_of(content):
            content["id"] = self._new_id(self.calls - 1)
            frame = write_event(event)
        if self._open is not None:
            self.moved = True
            self._waiting.append(block)
            return self._show(block, event, frame)
        self._open = block
        self._number(block, event)
        return self._show(block, event, frame)

    def _number(self, block: _ShownBlock, event: Json) -> None:
        block.number = self.next
        self.next += 1
        self.moved = self.moved or event.get("index") != block.number

    def _show(self, block: _ShownBlock, event: Json, frame: bytes) -> bytes:
        """Write an event as the client sees it, or hold it until its block's turn comes."""
        if block.hidden:
            return b""
        if block.number is None:
            block.held.append((event, frame))
            self._held += len(frame)
            if self._held > self._limit:
                raise UpstreamBroke("The upstream began many blocks and did not end the first.")
            return b""
        if self.gap and text_in(event):
            self.gap, event = False, set_apart(event)
            frame = write_event(event)
        if event.get("index") == block.number:
            return frame
        return renumber_event(frame, event, block.number)

    def _end(self, block: _ShownBlock | None) -> bytes:
        """End a block that was not ended itself."""
        if block is None or block.hidden:
            return b""
        end: Json = {"type": END, "index": NO_NUMBER}
        return self._show(block, end, write_event(end)) + self._leave(block)

    def _leave(self, block: _ShownBlock) -> bytes:
        """Go on after the end of a block: with those that wait, up to one that has not ended."""
        block.ended = True
        if block is not self._open:
            return b""
        self._open = None
        shown = []
        while self._waiting and self._open is None:
            following = self._waiting.popleft()
            held, following.held = following.held, []
            self._number(following, held[0][0])
            shown += [self._show(following, *piece) for piece in held]
            self._open = None if following.ended else following
        return b"".join(shown)
