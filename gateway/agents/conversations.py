"""The conversations of agents: read, and added to without losing what others added."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from gateway.agents.transcript import Message, extend_history
from gateway.offload import Offload
from gateway.stores.documents import Conflict, StoreUnavailable
from gateway.stores.rows import AgentConversation, ConversationRows

ATTEMPTS = 32
NOTHING = b"[]"


class Bookmark(NamedTuple):
    """The place in a conversation behind what was said last."""

    version: int = 0
    at_ms: int = 0
    """When that was kept."""


class Conversations:
    """Reads and lengthens conversations, each of one owner, agent and session."""

    def __init__(
        self, rows: ConversationRows, now_ms: Callable[[], int], offload: Offload | None = None
    ) -> None:
        self.rows = rows
        self.now_ms = now_ms
        self.offload = offload or Offload()

    async def open(self, owner: str, agent: str, session: str) -> ConversationRecord:
        """Read a conversation; raises if the store is down."""
        return ConversationRecord(self, await self.read(owner, agent, session))

    async def read(self, owner: str, agent: str, session: str) -> AgentConversation:
        """Return a conversation, an empty one if there is none; raises if the store is down."""
        found = await self.rows.get(owner, agent, session)
        return found or AgentConversation(owner, agent, session)


class ConversationRecord:
    """A conversation as one exchange found it, and which it adds to in the end."""

    def __init__(self, conversations: Conversations, found: AgentConversation) -> None:
        self._all = conversations
        self._where = (found.owner, found.agent, found.session)
        self._found: AgentConversation | None = found

    @property
    def messages(self) -> bytes:
        """What was said before, as a JSON array."""
        return NOTHING if self._found is None else self._found.messages

    def let_go(self) -> None:
        """Forget what was found: an exchange may wait for long, and a conversation be large."""
        self._found = None

    async def add(self, gained: list[Message]) -> Bookmark:
        """Put messages at the end of the conversation, durably; return where that is.

        If it has become another one meanwhile, they are put at the end of that one.
        """
        for _ in range(ATTEMPTS):
            found = self._found or await self._all.read(*self._where)
            if not gained:
                return Bookmark(found.version, found.updated_ms)
            work = partial(extend_history, found.messages, gained)
            size = len(found.messages) + sum(len(m.get("content") or "") for m in gained)
            messages = await self._all.offload.run(found.owner, size, work)
            now_ms = self._all.now_ms()
            changed = msgspec.structs.replace(found, messages=messages, updated_ms=now_ms)
            with suppress(Conflict):
                return Bookmark(await self._all.rows.put(changed), now_ms)
            self.let_go()
        raise StoreUnavailable("Too many requests change this conversation at once; try again.")


class UnkeptConversation:
    """A conversation that begins and ends with one exchange."""

    messages = NOTHING

    def let_go(self) -> None:
        """Have nothing to forget."""

    async def add(self, gained: list[Message]) -> Bookmark:
        """Keep nothing."""
        return Bookmark()
