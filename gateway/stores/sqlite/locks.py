"""Locks: in a database that processes share, or in the memory of the only one there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gateway.stores.documents import SessionKey
from gateway.stores.sqlite.engine import Engine

FIND = "SELECT token, reason, until_ms FROM locks WHERE owner = ? AND session = ?"
TAKE = """INSERT OR REPLACE INTO locks (owner, session, token, reason, until_ms)
    VALUES (?, ?, ?, ?, ?)"""
EXTEND = "UPDATE locks SET until_ms = ? WHERE owner = ? AND session = ? AND token = ?"
RELEASE = "DELETE FROM locks WHERE owner = ? AND session = ? AND token = ?"
VOID = "DELETE FROM locks"


class Held(NamedTuple):
    """Who has a lock, why, and until when that is believed without being told again."""

    token: str
    reason: str
    until_ms: int


def _refusal(held: Held | None, token: str, now_ms: int) -> str | None:
    return held.reason if held and held.token != token and held.until_ms > now_ms else None


class SqliteLocks:
    """The `LockRows` of a database that others may use too."""

    def __init__(self, engine: Engine, lease_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._lease_ms = lease_ms

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; None when taken, else the reason of the one who has it."""
        now_ms = self._lease_ms()
        held = Held(token, reason, now_ms + ttl_ms)
        return await self._engine.change(partial(_take, (owner, session), held, now_ms))

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; False when the lock is no longer this token's."""
        values = (self._lease_ms() + ttl_ms, owner, session, token)
        return await self._engine.mend(partial(_has_done, EXTEND, values))

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Free the lock if it is this token's."""
        return await self._engine.mend(partial(_has_done, RELEASE, (owner, session, token)))

    async def void(self) -> None:
        """Free all locks."""
        await self._engine.mend(partial(_has_done, VOID, ()))


def _take(key: SessionKey, wanted: Held, now_ms: int, connection: sqlite3.Connection) -> str | None:
    row = connection.execute(FIND, key).fetchone()
    refusal = _refusal(Held(*row) if row else None, wanted.token, now_ms)
    if refusal is None:
        connection.execute(TAKE, (*key, *wanted))
    return refusal


def _has_done(
    statement: str, values: tuple[str | int, ...], connection: sqlite3.Connection
) -> bool:
    return connection.execute(statement, values).rowcount > 0


class MemoryLocks:
    """The `LockRows` of a store of one process, whose locks end with it and cost no write."""

    def __init__(self, lease_ms: Callable[[], int]) -> None:
        self._lease_ms = lease_ms
        self._held: dict[SessionKey, Held] = {}

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; None when taken, else the reason of the one who has it."""
        now_ms = self._lease_ms()
        refusal = _refusal(self._held.get((owner, session)), token, now_ms)
        if refusal is None:
            self._held[owner, session] = Held(token, reason, now_ms + ttl_ms)
        return refusal

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; False when the lock is no longer this token's."""
        held = self._held.get((owner, session))
        if held is None or held.token != token:
            return False
        self._held[owner, session] = held._replace(until_ms=self._lease_ms() + ttl_ms)
        return True

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Free the lock if it is this token's."""
        held = self._held.get((owner, session))
        if held is None or held.token != token:
            return False
        del self._held[owner, session]
        return True

    async def void(self) -> None:
        """Free all locks."""
        self._held.clear()
