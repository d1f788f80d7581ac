"""What a request needs to know of its session, found in one look at a store that instances share.

A look is taken once, when the request comes in. Two things may be asked of it later, without I/O:

- Within the same request, before its first turn: what the documents are. Nothing newer is needed,
  since the request may as well have come at the moment of the look.
- At any time later: whether there was nothing. That counts as long as no hint of a change of this
  session has arrived since. Whatever was there has to be read again.

A request that gets no look in time, because the database is away, goes on without its session.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.hints import ITEMS, JOBS, REMINDERS, STATE, SessionHints, SessionKey

READ_KINDS = ("session", "clock", "answer")
"""The kinds of documents that requests need; of others a look only says whether there are any."""
HINTED_KINDS = {"session": STATE, "clock": REMINDERS}
"""The kinds of which changes are told, and how."""
MOST_LOOKS = 10_000
# A request that takes longer before its first turn, such as a very large one, reads again.
FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document as a look found it; None: it was not read, but it is there."""

    revision: int
    document: bytes | None


@dataclass(slots=True)
class FoundSession:
    """What a look found of one session."""

    documents: dict[str, FoundDocument] = field(default_factory=dict)
    items: list[OutboxItem] = field(default_factory=list)
    """What waits for the session, delivered by nobody yet."""
    has_jobs: bool = False
    next_run_ms: int | None = None
    """When a run begins that the session gets the result of; 0: one is running."""
    tools: str = ""
    """The digest of the system text that the session sent last together with tools."""


@dataclass(slots=True)
class Look:
    """What a look found, and when it was taken."""

    key: SessionKey
    found: FoundSession
    mark: int
    """What the hints had told before."""
    taken: float


Looks = Mapping[SessionKey, Look]


class Looker(Protocol):
    """Looks at sessions in the database."""

    async def find(self, keys: Sequence[SessionKey]) -> list[FoundSession] | None:
        """Return what there is of each session; None if there was no answer in time."""

    def note_tools(self, key: SessionKey, tools: str) -> None:
        """Store soon with which system text a session sent tools."""


class SessionEntries:
    """Takes looks, and remembers the last one of each session."""

    def __init__(
        self,
        looker: Looker,
        hints: SessionHints,
        refuses: bool = False,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refuses = refuses
        """Whether a request is refused rather than answered without its session's state."""
        self._looker = looker
        self.hints = hints
        self._steady = steady
        self._looks: OrderedDict[SessionKey, Look] = OrderedDict()
        # The looks of the request that this task answers.
        self._taken: ContextVar[Looks | None] = ContextVar("looks", default=None)
        # When a look of this task was last waited for in vain.
        self._missed: ContextVar[float] = ContextVar("missed", default=float("-inf"))

    def __repr__(self) -> str:
        return f"<SessionEntries {len(self._looks)} looks>"

    async def look(self, *keys: SessionKey) -> bool:
        """Look at the sessions of a request at once; return False if there was no answer in time.

        The request goes by this look until it ends.
        """
        return await self._take(keys, {})

    async def look_also(self, keys: Sequence[SessionKey]) -> bool:
        """Look at more for the same request, at what it has not looked at yet.

        If it has waited in vain already, it does not wait once more.
        """
        missing = [key for key in keys if self.find_taken(key) is None]
        if not missing:
            return True
        if self._steady() - self._missed.get() < FRESH_SECONDS:
            return False
        return await self._take(missing, self._taken.get() or {})

    async def _take(self, keys: Sequence[SessionKey], before: Looks) -> bool:
        mark = self.hints.mark()
        found = await self._looker.find(keys)
        now, looks = self._steady(), self._looks
        if found is None:
            self._taken.set(None)
            self._missed.set(now)
            return False
        taken = [Look(key, one, mark, now) for key, one in zip(keys, found, strict=True)]
        for look in taken:
            looks[look.key] = look
            looks.move_to_end(look.key)
        while len(looks) > MOST_LOOKS:
            looks.popitem(last=False)
        self._taken.set({**before, **{look.key: look for look in taken}})
        return True

    def end(self) -> None:
        """Let this task read anew from now on: its first turn has begun."""
        if self._taken.get() is not None:
            self._taken.set(None)

    def note_written(self, kind: str, key: SessionKey, written: FoundDocument | None) -> None:
        """Note what this task wrote; None: it deleted the document."""
        found = self.find_taken(key)
        if found is not None:
            if written is None:
                found.documents.pop(kind, None)
            else:
                found.documents[kind] = written

    def find_taken(self, key: SessionKey) -> FoundSession | None:
        """Return what the request of this task found of a session, if it may still go by it."""
        taken = self._taken.get()
        look = None if taken is None else taken.get(key)
        if look is None or self._steady() - look.taken > FRESH_SECONDS:
            return None
        return look.found

    def find_current(self, letters: str, key: SessionKey) -> FoundSession | None:
        """Return what the last look found, unless it may have changed since; None: not known."""
        look = self._looks.get(key)
        if look is None or self.hints.has_changed(letters, key, look.mark):
            return None
        return look.found

    def find_mark(self, key: SessionKey) -> int:
        """Return what the hints had told before the last look at a session."""
        look = self._looks.get(key)
        return self.hints.mark() if look is None else look.mark

    # Without I/O; True means certainly.

    def has_no_document(self, kind: str, key: SessionKey) -> bool:
        """Return whether there is surely no document of this kind."""
        found = self.find_taken(key)
        if found is None and (letter := HINTED_KINDS.get(kind)) is not None:
            found = self.find_current(letter, key)
        return found is not None and kind not in found.documents

    def has_no_items(self, key: SessionKey) -> bool:
        """Return whether surely nothing waits for a session."""
        found = self.find_current(ITEMS, key)
        return found is not None and not found.items

    def has_no_jobs(self, key: SessionKey) -> bool:
        """Return whether a session surely has no jobs."""
        found = self.find_current(JOBS, key)
        return found is not None and not found.has_jobs

    def find_tools(self, key: SessionKey) -> str:
        """Return the digest of the system text that came last with tools, as far as is known."""
        look = self._looks.get(key)
        return "" if look is None else look.found.tools

    def note_tools(self, key: SessionKey, tools: str) -> None:
        """Note with which system text a session sent tools, for all instances."""
        look = self._looks.get(key)
        if look is not None and look.found.tools != tools:
            look.found.tools = tools
            self._looker.note_tools(key, tools)
