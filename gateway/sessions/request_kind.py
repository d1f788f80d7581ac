"""What kind a request is, by its text, its system text, and earlier requests of its session.

Coding agents send side calls (requests without tools, for titles and summaries) in the session of a
conversation. The last request with tools of each session is remembered in memory. What is stored
for a session also says which kind of request set it, so that a title request is recognised even if
it is the first request after a restart. For a large request, everything that the session needs to
know is read once, off the event loop (`read_facts`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import sha256
from typing import Protocol

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import Mark, ModelRequest, RequestFacts
from gateway.reminders.service import ReminderService
from gateway.sessions.identity import Requester
from gateway.sessions.model import SessionState
from gateway.sessions.session_request import SessionRequest
from gateway.stores.documents import DocumentKey, StoreUnavailable
from gateway.stores.entries import SessionEntries

REMEMBERED_SESSIONS = 10_000
MOST_LOOKED_UP = 64
LONGEST_CALL = 16 * 1024
DIGITS = 32
LONGEST_NEEDLE = 25
# Nobody writes these in JSON in another way than as they are.
_find_plain = re.compile(r"[a-z0-9 ,.;:!?'()_-]+").findall


def find_mark(dialect: Dialect, asked: ModelRequest, sentinels: Sentinels) -> Mark | None:
    """Return the kind of request that the beginning of its text marks, if any."""
    if asked.facts is not None:
        return asked.facts.mark
    return sentinels.find_mark(dialect, asked.body)


def last_calls(dialect: Dialect, asked: ModelRequest) -> tuple[str, ...]:
    """Return the id of the first call of each of the last turns that called tools."""
    if asked.facts is not None:
        return asked.facts.calls
    return _read_last_calls(dialect, asked.body)


def read_facts(dialect: Dialect, body: bytes, named: bool, sentinels: Sentinels) -> RequestFacts:
    """Read everything that a session needs to know about a large request, in one job."""
    return RequestFacts(
        system=digest_texts(dialect, body),
        mark=sentinels.find_mark(dialect, body),
        calls=() if named else _read_last_calls(dialect, body),
    )


def _read_last_calls(dialect: Dialect, body: bytes) -> tuple[str, ...]:
    # A lookup takes longer for a longer id, and a client may send an id of megabytes.
    return tuple(c for c in dialect.find_call_ids(body)[-MOST_LOOKED_UP:] if len(c) <= LONGEST_CALL)


class Sentinels:
    """Beginnings of texts that mark the purpose of a request.

    An agent asks for a summary of its conversation (compaction), or, without tools, for a title or
    the like (side call). Both are searched for in one pass over the body.
    """

    def __init__(self, compaction: tuple[str, ...], side_call: tuple[str, ...] = ()) -> None:
        self._compaction = tuple(text.casefold() for text in compaction)
        self._side_call = tuple(text.casefold() for text in side_call)
        starts = self._compaction + self._side_call
        needles = {_find_needle(start) for start in starts}
        # What has another needle in it is found by that one.
        least = [one for one in needles if not any(o in one for o in needles if o != one)]
        self._needles = [msgspec.json.encode(needle)[1:-1] for needle in sorted(least)]
        # JSON can escape non-ASCII letters in several ways, so their bytes cannot be searched for.
        self._tells = all(start.isascii() for start in starts)

    def find_mark(self, dialect: Dialect, body: bytes) -> Mark | None:
        """Return the mark at the beginning of the newest user message or of a system text."""
        if self._tells:
            lowered = body.lower()
            for needle in self._needles:
                # `in` would take more time to find out that it is no number than to search.
                if lowered.find(needle) >= 0:
                    break
            else:
                return None
        texts = (*dialect.newest_user(body)[1], *dialect.system_texts(body))
        begun = [text.lstrip().casefold() for text in texts]
        if any(text.startswith(self._compaction) for text in begun):
            return Mark.COMPACTION
        if any(text.startswith(self._side_call) for text in begun):
            return Mark.SIDE_CALL
        return None


def _find_needle(start: str) -> str:
    """Return what JSON holds for sure if a text in it begins so; a long needle is found sooner.

    A very long one is not: there is hardly a letter that it does not hold. Its end says most.
    """
    runs: list[str] = _find_plain(start)
    return max(runs, key=len, default="")[-LONGEST_NEEDLE:]


def digest_system(dialect: Dialect, asked: ModelRequest) -> str:
    """Return the digest of the request's system texts."""
    return digest_texts(dialect, asked.body) if asked.facts is None else asked.facts.system


def digest_texts(dialect: Dialect, body: bytes) -> str:
    """Read the system texts of a body, and return their digest."""
    system = "\0".join(dialect.system_texts(body))
    return sha256(system.encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def requester_of(dialect: Dialect, asked: ModelRequest) -> Requester:
    """Return what kind of request this is."""
    return Requester(bool(asked.tools), digest_system(dialect, asked))


class SnapshotSetters(Protocol):
    """Knows which kind of request the snapshot of a session comes from."""

    def needs_none(self, owner: str, session: str) -> bool:
        """Return without I/O whether the session has no jobs and no results wait for it."""

    async def find_setter(self, owner: str, session: str) -> str:
        """Return the digest of its system text if it offered tools; else an empty string."""


class SideCalls:
    """Distinguishes the side calls of a session from its conversation."""

    def __init__(
        self,
        reminders: ReminderService | None,
        snapshots: SnapshotSetters | None,
        entries: SessionEntries | None = None,
    ) -> None:
        self._entries = entries
        self._reminders = reminders
        self._snapshots = snapshots
        # By session, the digest of the system text of the last request that offered tools.
        self._last: OrderedDict[DocumentKey, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"<SideCalls of {len(self._last)} sessions>"

    def last_system(self, key: DocumentKey) -> str | None:
        """Return the system text's digest of the session's last request with tools, if known."""
        if self._entries is not None and (found := self._entries.find_tools(key[1:])):
            return found
        return self._last.get(key)

    def forget(self, key: DocumentKey) -> None:
        """Forget what a session has sent."""
        self._last.pop(key, None)

    def judge_at_once(self, request: SessionRequest) -> bool | None:
        """Return whether a request is a side call, for a session that has no document.

        None: that depends on stored reminders or jobs, so `judge` has to be called.
        """
        known = self._judge_by_memory(request)
        if known is not None:
            return known
        owner, name = request.owner, request.name
        assert name is not None
        idle = self._reminders is None or self._reminders.surely_idle(owner, name)
        unasked = self._snapshots is None or self._snapshots.needs_none(owner, name)
        return False if idle and unasked else None

    async def judge(self, request: SessionRequest, state: SessionState) -> bool:
        """Return whether a request is a side call, by memory and by what is stored."""
        if request.key is None:
            return False
        known = self._judge_by_memory(request)
        if known is not None:
            return known
        setters = {state.setter, *await self._find_setters(request)} - {""}
        return bool(setters) and digest_system(request.dialect, request.asked) not in setters

    def _judge_by_memory(self, request: SessionRequest) -> bool | None:
        """Judge by the request itself and the session's last one with tools, if there was one."""
        asked, key, last = request.asked, request.key, self._last
        assert key is not None
        if asked.tools:
            last[key] = digest_system(request.dialect, asked)
            last.move_to_end(key)
            if self._entries is not None:
                self._entries.note_tools(key[1:], last[key])
            if len(last) > REMEMBERED_SESSIONS:
                last.popitem(last=False)
            return False
        if asked.structured:
            return True
        known = self.last_system(key)
        return None if known is None else known != digest_system(request.dialect, asked)

    async def _find_setters(self, request: SessionRequest) -> set[str]:
        """Return the stored setters of the session's reminders and jobs."""
        owner, name, found = request.owner, request.name, set[str]()
        assert name is not None
        try:
            if self._reminders is not None and not self._reminders.surely_idle(owner, name):
                tasks = await self._reminders.list_undelivered(owner, name)
                found.update(task.setter for task in tasks)
            if self._snapshots is not None and not self._snapshots.needs_none(owner, name):
                found.add(await self._snapshots.find_setter(owner, name))
        except StoreUnavailable:
            # While the store is down, nothing waits there to be delivered either.
            pass
        return found
