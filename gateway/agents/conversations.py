"""Reads conversations of agents, and appends to them without losing what others appended."""

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
    """A position in a conversation: after the last stored message."""

    version: int = 0
    at_ms: int = 0
    """When that message was stored."""


class Conversations:
    """The stored conversations, each of one owner, agent and session."""

    def __init__(
        self, rows: ConversationRows, now_ms: Callable[[], int], offload: Offload | None = None
    ) -> None:
        self.rows = rows
        self.now_ms = now_ms
        self.offload = offload or Offload()

    async def open(self, owner: str, agent: str, session: str) -> ConversationRecord:
        """Open a conversation for one exchange; raise if the store is down."""
        return ConversationRecord(self, await self.read(owner, agent, session))

    async def read(self, owner: str, agent: str, session: str) -> AgentConversation:
        """Return a conversation, an empty one if there is none; raise if the store is down."""
        found = await self.rows.get(owner, agent, session)
        return found or AgentConversation(owner, agent, session)


class ConversationRecord:
    """A conversation as one exchange found it; the exchange appends to it at its end."""

    def __init__(self, conversations: Conversations, found: AgentConversation) -> None:
        self._all = conversations
        self._key = (found.owner, found.agent, found.session)
        self._found: AgentConversation | None = found

    @property
    def messages(self) -> bytes:
        """The earlier messages, as a JSON array."""
        return NOTHING if self._found is None else self._found.messages

    def let_go(self) -> None:
        """Release the messages: an exchange may be held for long, and a conversation be large."""
        self._found = None

    async def add(self, gained: list[Message]) -> Bookmark:
        """Append messages to the conversation, durably; return its new end.

        If the conversation was changed meanwhile, they are appended to the changed one.
        """
        for _ in range(ATTEMPTS):
            found = self._found or await self._all.read(*self._key)
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
    """A conversation of one exchange only, which is not stored."""

    messages = NOTHING

    def let_go(self) -> None:
        """Do nothing: there are no messages."""

    async def add(self, gained: list[Message]) -> Bookmark:
        """Store nothing."""
        return Bookmark()
