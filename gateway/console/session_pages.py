"""Pages of sessions, the one used last first: those of several lists, each session once.

State, reminders and conversations are listed by the stores, a page at a time and without reading a
document. What else a session may have (jobs, deliveries, live exchanges) is small and comes whole.
A session stands where the newest of all that is. Its older entries in other lists are skipped: on
the same page because it was found, on a later page because something of it is newer than the
page's begin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple

import anyio.lowlevel

from gateway.reminders.reminder_documents import KIND as CLOCK
from gateway.sessions.session_request import KIND as STATE
from gateway.stores.conversation_rows import ConversationRows
from gateway.stores.documents import Documents, Listed, SessionKey

MOST_READ_AT_ONCE = 500


class SessionPlace(NamedTuple):
    """Where a session stands in the list."""

    updated_ms: int
    session: str
    owner: str

    @property
    def key(self) -> SessionKey:
        """The session."""
        return self.owner, self.session


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions are asked for: an owner's or everybody's, and of these a page."""

    owner: str | None
    """None: everybody's."""
    limit: int
    after: SessionPlace | None = None
    """The last of the page before."""
    q: str = ""
    """What their names contain, in lower case."""

    def takes(self, session: str) -> bool:
        """Whether a session of this name is asked for."""
        return not self.q or self.q in session.lower()

    def begin_for(self, owner: str) -> Listed | None:
        """Return where this page begins in the lists of an owner."""
        if self.after is None:
            return None
        updated_ms, session, last_owner = self.after
        # Of two equal places, that of the lower owner is still to come.
        return Listed(updated_ms, f"{session}\0" if owner < last_owner else session)


Read = Callable[[Listed | None, int], Awaitable[Sequence[tuple[Any, ...]]]]


class SessionSource:
    """One of the lists that become one, read a page at a time."""

    def __init__(self, read: Read, owner: str, query: SessionQuery) -> None:
        self._read = read
        self._owner = owner
        self._query = query
        self._after = query.begin_for(owner)
        # Few of many may have the name that is asked for.
        self._size = MOST_READ_AT_ONCE if query.q else min(query.limit, MOST_READ_AT_ONCE)
        self._is_over = False
        self.places: list[SessionPlace] = []
        """What was read and not taken, the newest last."""

    async def fill(self) -> None:
        """Read on until there is something to take, or the list is over."""
        while not self.places and not self._is_over:
            # Not every store waits for something.
            await anyio.lowlevel.checkpoint()
            found = await self._read(self._after, self._size)
            self._is_over = len(found) < self._size
            if found:
                self._after = Listed(*found[-1][:2])
            takes = self._query.takes
            self.places = [
                SessionPlace(row[0], row[1], self._owner)
                for row in reversed(found)
                if takes(row[1])
            ]


class SessionPages:
    """Finds the page of sessions that a query asks for."""

    def __init__(
        self,
        documents: Documents,
        conversations: ConversationRows,
        others: Mapping[SessionKey, int],
    ) -> None:
        """Take the stores, and when other things of sessions were used last."""
        self._documents = documents
        self._conversations = conversations
        self._others = others
        self._others_of: defaultdict[str, list[Listed]] = defaultdict(list)
        for (owner, session), updated_ms in others.items():
            self._others_of[owner].append(Listed(updated_ms, session))

    async def find_page(self, query: SessionQuery) -> list[SessionPlace]:
        """Return the sessions that follow those of an earlier page, each once."""
        sources = await self._open_sources(query)
        found: dict[SessionKey, SessionPlace] = {}
        while len(found) < query.limit:
            taken = await _take_newest(sources, query.limit - len(found))
            if not taken:
                break
            listed = await self._find_listed(taken, query.after)
            for key, place in taken.items():
                if key not in listed:
                    found.setdefault(key, place)
        return list(found.values())

    async def _open_sources(self, query: SessionQuery) -> list[SessionSource]:
        owners = await self._list_owners() if query.owner is None else {query.owner}
        reads = [
            (read, owner)
            for owner in owners
            for read in (
                partial(self._documents.listing, STATE, owner),
                partial(self._documents.listing, CLOCK, owner),
                partial(self._conversations.listing, owner),
                partial(self._list_others, owner),
            )
        ]
        return [SessionSource(read, owner, query) for read, owner in reads]

    async def _list_owners(self) -> set[str]:
        found = set(self._others_of)
        found.update(await self._documents.list_owners(STATE))
        found.update(await self._documents.list_owners(CLOCK))
        found.update(await self._conversations.list_owners())
        return found

    async def _list_others(self, owner: str, after: Listed | None, limit: int) -> list[Listed]:
        places = self._others_of.get(owner, [])
        return nlargest(limit, places if after is None else [one for one in places if one < after])

    async def _find_listed(
        self, taken: Mapping[SessionKey, SessionPlace], after: SessionPlace | None
    ) -> set[SessionKey]:
        """Return the sessions that an earlier page has, where something newer of them stands."""
        if after is None:
            return set()
        by_owner: defaultdict[str, list[str]] = defaultdict(list)
        for owner, session in taken:
            by_owner[owner].append(session)
        listed = {
            key for key in taken if SessionPlace(self._others.get(key, 0), *key[::-1]) >= after
        }
        for owner, names in by_owner.items():
            places = [(ms, name) for ms, name, _ in await self._find_talks(owner, names)]
            for kind in (STATE, CLOCK):
                written = await self._documents.find_updated(kind, owner, names)
                places += [(ms, name) for name, ms in written.items()]
            listed.update((owner, n) for ms, n in places if SessionPlace(ms, n, owner) >= after)
        return listed

    async def _find_talks(self, owner: str, names: list[str]) -> list[tuple[int, str, str]]:
        return await self._conversations.find_updated(owner, names)


async def _take_newest(
    sources: Sequence[SessionSource], most: int
) -> dict[SessionKey, SessionPlace]:
    """Take the newest places of all sources, until there are so many sessions."""
    taken: dict[SessionKey, SessionPlace] = {}
    while len(taken) < most:
        for source in sources:
            if not source.places:
                await source.fill()
        left = [source.places for source in sources if source.places]
        if not left:
            break
        place = max(left, key=lambda places: places[-1]).pop()
        taken.setdefault(place.key, place)
    return taken
