"""Sessions, the one used last first: those with state and those with conversations, as one list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from gateway.sessions.session_request import KIND, SHAPE
from gateway.stores.documents import Corrupt, DocumentKey, Documents, Listed, Newer, sight
from gateway.stores.rows import ConversationRows

MOST_READ_AT_ONCE = 100


class ListedSession(NamedTuple):
    """A session in the list: when it was used last, and by which agent, if any."""

    updated_ms: int
    session: str
    agent: str = ""


Read = Callable[[Listed | None, int], Awaitable[Sequence[tuple[Any, ...]]]]


class SessionSource:
    """One of the lists that become one, read a page at a time."""

    def __init__(self, read: Read, after: Listed | None, size: int) -> None:
        self._read = read
        self._after = after
        self._size = size
        self._entries: list[ListedSession] = []
        self._is_over = False

    async def head(self) -> ListedSession | None:
        """Return the newest entry that was not taken."""
        if not self._entries and not self._is_over:
            found = await self._read(self._after, self._size)
            page = [ListedSession(*item) for item in found]
            self._is_over = len(page) < self._size
            self._entries = page[::-1]
            self._after = Listed(page[-1].updated_ms, page[-1].session) if page else None
        return self._entries[-1] if self._entries else None

    def take(self) -> None:
        """Take it."""
        self._entries.pop()


class SessionPages:
    """The pages of one owner's sessions."""

    def __init__(self, documents: Documents, conversations: ConversationRows, owner: str) -> None:
        self._documents = documents
        self._conversations = conversations
        self._owner = owner

    async def page(self, after: Listed | None, limit: int) -> list[ListedSession]:
        """Return the sessions that follow one of an earlier page, each once."""
        size = min(limit, MOST_READ_AT_ONCE)
        sources = [
            SessionSource(partial(self._documents.listing, KIND, self._owner), after, size),
            SessionSource(partial(self._conversations.listing, self._owner), after, size),
        ]
        found: dict[str, ListedSession] = {}
        while len(found) < limit:
            heads = [(head, source) for source in sources if (head := await source.head())]
            if not heads:
                break
            entry, source = max(heads, key=lambda pair: pair[0])
            source.take()
            if entry.session not in found and not await self._was_listed(entry, after):
                found[entry.session] = entry
        return [await self._add_agent(entry) for entry in found.values()]

    async def _was_listed(self, entry: ListedSession, after: Listed | None) -> bool:
        """Tell whether an earlier page has the session, as something newer of it."""
        if after is None:
            return False
        places = [await self._find_state(entry.session)]
        conversations = await self._conversations.of_session(self._owner, entry.session)
        places += [Listed(one.updated_ms, one.session) for one in conversations]
        return max(places) >= after

    async def _find_state(self, session: str) -> Listed:
        key = DocumentKey(KIND, self._owner, session)
        stored = None if self._documents.absent(key) else await self._documents.read(key)
        try:
            return Listed(sight(stored, SHAPE).updated_ms if stored else 0, session)
        except (Corrupt, Newer):
            return Listed(0, session)

    async def _add_agent(self, entry: ListedSession) -> ListedSession:
        if entry.agent:
            return entry
        conversations = await self._conversations.of_session(self._owner, entry.session)
        return entry._replace(agent=conversations[0].agent) if conversations else entry
