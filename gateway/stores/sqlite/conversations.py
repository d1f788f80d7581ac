"""Conversations, snapshots and locks of sessions in a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.stores.conversation_rows import AgentConversation, Snapshot
from gateway.stores.documents import Conflict, SessionKey
from gateway.stores.sqlite.engine import Engine

FIND = """SELECT owner, agent, session, messages, version, updated_ms FROM conversations
    WHERE owner = ? AND session = ? AND agent = ?"""
OF_SESSION = """SELECT owner, agent, session, messages, version, updated_ms FROM conversations
    WHERE owner = ? AND session = ?"""
VERSION = "SELECT version FROM conversations WHERE owner = ? AND session = ? AND agent = ?"
# The row number is the version: it is never given twice, not even after a deletion.
PUT = """INSERT OR REPLACE INTO conversations (owner, session, agent, messages, updated_ms)
    VALUES (?, ?, ?, ?, ?)"""
NEWEST = """SELECT updated_ms, session, agent FROM conversations WHERE owner = ?
    ORDER BY updated_ms DESC, session DESC, agent DESC LIMIT ?"""
# A session has one exchange at a time, so two agents of one never end in the same instant.
NEXT = """SELECT updated_ms, session, agent FROM conversations
    WHERE owner = ? AND (updated_ms, session) < (?, ?)
    ORDER BY updated_ms DESC, session DESC, agent DESC LIMIT ?"""
UPDATED = """SELECT updated_ms, session, agent FROM conversations
    WHERE owner = ? AND session = ?"""
OWNERS = "SELECT DISTINCT owner FROM conversations"
FORGET = "DELETE FROM conversations WHERE owner = ? AND session = ?"
FORGET_SNAPSHOT = "DELETE FROM snapshots WHERE owner = ? AND session = ?"
SNAPSHOT = """SELECT dialect, model, body, answer, updated_ms, headers FROM snapshots
    WHERE owner = ? AND session = ?"""
KEEP_SNAPSHOT = """INSERT OR REPLACE INTO snapshots
    (owner, session, dialect, model, body, answer, updated_ms, headers)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
FIND_LOCK = "SELECT token, reason, until_ms FROM locks WHERE owner = ? AND session = ?"
TAKE_LOCK = """INSERT OR REPLACE INTO locks (owner, session, token, reason, until_ms)
    VALUES (?, ?, ?, ?, ?)"""
EXTEND_LOCK = "UPDATE locks SET until_ms = ? WHERE owner = ? AND session = ? AND token = ?"
RELEASE_LOCK = "DELETE FROM locks WHERE owner = ? AND session = ? AND token = ?"

_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...])


class SqliteConversations:
    """The `ConversationRows` of a database; without a time the store sets it."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._now_ms = now_ms

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        """Return a conversation."""
        return await self._engine.ask(partial(_find, (owner, session, agent)))

    async def of_session(self, owner: str, session: str) -> list[AgentConversation]:
        """Return the conversations of a session, with whatever agent, the newest first."""
        return await self._engine.ask(partial(_of_session, owner, session))

    async def put(self, conversation: AgentConversation) -> int:
        """Replace the conversation of the given version; return the new version."""
        updated_ms = conversation.updated_ms or self._now_ms()
        return await self._engine.change(partial(_put, conversation, updated_ms))

    async def listing(
        self, owner: str, before: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Return a page of an owner's conversations, newest first."""
        return await self._engine.ask(partial(_listing, owner, before, limit))

    async def find_updated(self, owner: str, sessions: Sequence[str]) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent) of these sessions, newest first."""
        return await self._engine.ask(partial(_find_updated, owner, sessions))

    async def list_owners(self) -> list[str]:
        """Return the owners of all conversations."""
        return await self._engine.ask(_list_owners)

    async def forget(self, owner: str, session: str) -> int:
        """Delete a session's conversations and its snapshot; return how many conversations."""
        return await self._engine.mend(partial(_forget, owner, session))

    async def snapshot(self, owner: str, session: str) -> Snapshot | None:
        """Return the snapshot of a relay session."""
        return await self._engine.ask(partial(_snapshot, owner, session))

    async def keep_snapshot(self, owner: str, session: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a relay session."""
        seen = (snapshot.dialect, snapshot.model, snapshot.body, snapshot.answer)
        headers = msgspec.json.encode(snapshot.headers)
        values = (owner, session, *seen, snapshot.updated_ms or self._now_ms(), headers)
        await self._engine.change(partial(_keep_snapshot, values))


def _find(key: tuple[str, str, str], connection: sqlite3.Connection) -> AgentConversation | None:
    row = connection.execute(FIND, key).fetchone()
    return None if row is None else AgentConversation(*row)


def _of_session(
    owner: str, session: str, connection: sqlite3.Connection
) -> list[AgentConversation]:
    found = [AgentConversation(*row) for row in connection.execute(OF_SESSION, (owner, session))]
    # Sorted here: with ORDER BY the database would scan all conversations of the owner.
    return sorted(found, key=lambda one: (one.updated_ms, one.version), reverse=True)


def _put(conversation: AgentConversation, updated_ms: int, connection: sqlite3.Connection) -> int:
    key = (conversation.owner, conversation.session, conversation.agent)
    row = connection.execute(VERSION, key).fetchone()
    if (row[0] if row else 0) != conversation.version:
        raise Conflict("The conversation was continued by somebody else.")
    return connection.execute(PUT, (*key, conversation.messages, updated_ms)).lastrowid or 0


def _listing(
    owner: str, before: tuple[int, str] | None, limit: int, connection: sqlite3.Connection
) -> list[tuple[int, str, str]]:
    if before is None:
        return connection.execute(NEWEST, (owner, limit)).fetchall()
    return connection.execute(NEXT, (owner, *before, limit)).fetchall()


def _find_updated(
    owner: str, sessions: Sequence[str], connection: sqlite3.Connection
) -> list[tuple[int, str, str]]:
    rows = [row for one in sessions for row in connection.execute(UPDATED, (owner, one))]
    return sorted(rows, reverse=True)


def _list_owners(connection: sqlite3.Connection) -> list[str]:
    return [owner for (owner,) in connection.execute(OWNERS)]


def _forget(owner: str, session: str, connection: sqlite3.Connection) -> int:
    connection.execute(FORGET_SNAPSHOT, (owner, session))
    return connection.execute(FORGET, (owner, session)).rowcount


def _snapshot(owner: str, session: str, connection: sqlite3.Connection) -> Snapshot | None:
    row = connection.execute(SNAPSHOT, (owner, session)).fetchone()
    if row is None:
        return None
    *seen, headers = row
    try:
        return replace(Snapshot(*seen), headers=_headers.decode(headers))
    except msgspec.MsgspecError:
        # It counts as missing: the session's next request replaces it.
        return None


def _keep_snapshot(values: tuple[str | bytes | int, ...], connection: sqlite3.Connection) -> None:
    connection.execute(KEEP_SNAPSHOT, values)


class LockHolder(NamedTuple):
    """The holder of a lock: its token, its reason, and when its lease ends."""

    token: str
    reason: str
    until_ms: int


def _refusal(held: LockHolder | None, token: str, now_ms: int) -> str | None:
    return held.reason if held and held.token != token and held.until_ms > now_ms else None


class SqliteLocks:
    """The `LockRows` of a database that other processes may use too."""

    def __init__(self, engine: Engine, lease_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._lease_ms = lease_ms

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; return None if that worked, else the reason of the holder."""
        now_ms = self._lease_ms()
        held = LockHolder(token, reason, now_ms + ttl_ms)
        return await self._engine.change(partial(_take_lock, (owner, session), held, now_ms))

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; return False if this token no longer holds the lock."""
        values = (self._lease_ms() + ttl_ms, owner, session, token)
        return await self._engine.mend(partial(_has_done, EXTEND_LOCK, values))

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Release the lock if this token holds it; return whether it did."""
        return await self._engine.mend(partial(_has_done, RELEASE_LOCK, (owner, session, token)))


def _take_lock(
    key: SessionKey, wanted: LockHolder, now_ms: int, connection: sqlite3.Connection
) -> str | None:
    row = connection.execute(FIND_LOCK, key).fetchone()
    refusal = _refusal(LockHolder(*row) if row else None, wanted.token, now_ms)
    if refusal is None:
        connection.execute(TAKE_LOCK, (*key, *wanted))
    return refusal


def _has_done(
    statement: str, values: tuple[str | int, ...], connection: sqlite3.Connection
) -> bool:
    return connection.execute(statement, values).rowcount > 0


class MemoryLocks:
    """The `LockRows` of a store of one process, in memory: they end with it and need no write."""

    def __init__(self, lease_ms: Callable[[], int]) -> None:
        self._lease_ms = lease_ms
        self._held: dict[SessionKey, LockHolder] = {}

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; return None if that worked, else the reason of the holder."""
        now_ms = self._lease_ms()
        refusal = _refusal(self._held.get((owner, session)), token, now_ms)
        if refusal is None:
            self._held[owner, session] = LockHolder(token, reason, now_ms + ttl_ms)
        return refusal

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; return False if this token no longer holds the lock."""
        held = self._held.get((owner, session))
        if held is None or held.token != token:
            return False
        self._held[owner, session] = held._replace(until_ms=self._lease_ms() + ttl_ms)
        return True

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Release the lock if this token holds it; return whether it did."""
        held = self._held.get((owner, session))
        if held is None or held.token != token:
            return False
        del self._held[owner, session]
        return True
