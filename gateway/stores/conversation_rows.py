"""The protocols of a store of conversations, snapshots and locks of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from gateway.jobs.model import Run

LONGEST = 4 * 1024 * 1024
"""A longer conversation loses its beginning: no model would read it."""


class AgentConversation(msgspec.Struct, frozen=True):
    """The messages of an agent's session, as a JSON array, and their version."""

    owner: str
    agent: str
    session: str
    messages: bytes = b"[]"
    version: int = 0
    updated_ms: int = 0
    first: int = 0
    """The version after its oldest exchange, where each exchange is a row."""


class TalkAddition(NamedTuple):
    """The messages that one exchange adds to a conversation, as a JSON array."""

    owner: str
    agent: str
    session: str
    messages: bytes
    token: str = ""
    """The token of the lock that is released with it; empty: there is none."""
    first: int = 0
    """What is older than this version is deleted."""
    told: Run | None = None
    """The run whose owed result this exchange told the session."""


class Snapshot(msgspec.Struct, frozen=True):
    """A relay session's last request, and the text that answered it."""

    dialect: str
    model: str
    body: bytes
    answer: str
    updated_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that belong to the body, such as its betas; never a credential."""


class ConversationRows(Protocol):
    """Conversations of agents, and snapshots of relay sessions."""

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        """Return a conversation."""

    async def of_session(self, owner: str, session: str) -> list[AgentConversation]:
        """Return the conversations of a session, with whatever agent, the newest first."""

    async def put(self, conversation: AgentConversation) -> int:
        """Replace the conversation of the given version (0: new); return the new version.

        No version is used twice. Without `updated_ms` the store sets the time. Raise `Conflict` if
        the conversation has another version.
        """

    async def listing(
        self, owner: str, before: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent), newest first, after a (updated_ms, session)."""

    async def find_updated(self, owner: str, sessions: Sequence[str]) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent) of these sessions, newest first."""

    async def list_owners(self) -> list[str]:
        """Return the owners of all conversations."""

    async def forget(self, owner: str, session: str) -> int:
        """Delete a session's conversations and its snapshot; return how many conversations."""

    async def snapshot(self, owner: str, session: str) -> Snapshot | None:
        """Return the snapshot of a relay session."""

    async def keep_snapshot(self, owner: str, session: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a relay session."""


class TalkRows(Protocol):
    """Conversations of agents in a store that instances share: each exchange is a row."""

    async def append(self, addition: TalkAddition) -> int:
        """Append an exchange, and release its lock; return the new version.

        Raise `Conflict` if its token does not hold the lock, or if its result is not owed any more.
        """


class LockRows(Protocol):
    """Locks: one holder for each session, by token, as long as the lease is renewed."""

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; return None if that worked, else the reason of the holder."""

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; return False if this token no longer holds the lock."""

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Release the lock if this token holds it; return whether it did."""


class HeldLock(NamedTuple):
    """A lock that somebody holds."""

    holder: str
    """The instance."""
    reason: str
    resting: bool
    """Whether its holder waits in a hold, which it ends when it is asked to."""


class SharedLockRows(Protocol):
    """What instances that share a store tell each other of their locks."""

    async def rest(self, owner: str, session: str, token: str, resting: bool) -> None:
        """Note whether the holder of this token waits in a hold."""

    async def find(self, owner: str, session: str) -> HeldLock | None:
        """Return who holds the lock now."""
