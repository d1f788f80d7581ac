"""Locks of sessions on PostgreSQL: one holder for each, until it releases the lock or is buried."""

from __future__ import annotations

from gateway.stores.conversation_rows import HeldLock
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import is_free

TAKE = f"""WITH taken AS (
        INSERT INTO @locks AS l (owner, session, token, holder, reason)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (owner, session) DO UPDATE SET token = excluded.token,
            holder = excluded.holder, reason = excluded.reason, resting = false
        WHERE l.token = excluded.token OR {is_free("l.holder")}
        RETURNING 1)
    SELECT (SELECT count(*) FROM taken) AS taken,
        (SELECT reason FROM @locks WHERE owner = $1 AND session = $2) AS reason"""
IS_HELD = "SELECT 1 FROM @locks WHERE owner = $1 AND session = $2 AND token = $3"
RELEASE = "DELETE FROM @locks WHERE owner = $1 AND session = $2 AND token = $3"
REST = """UPDATE @locks SET resting = $4
    WHERE owner = $1 AND session = $2 AND token = $3 AND resting <> $4"""
FIND = f"""SELECT holder, reason, resting FROM @locks
    WHERE owner = $1 AND session = $2 AND NOT {is_free("holder")}"""
ATTEMPTS = 5


class PostgresLocks:
    """The `LockRows` of a PostgreSQL; a lock has no lease of its own."""

    def __init__(self, services: SharedServices) -> None:
        self._services = services
        self._database = services.database

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; return None if that worked, else the reason of the holder."""
        values = (owner, session, token, self._services.instance.id, reason)
        for _ in range(ATTEMPTS):
            (row,) = await self._database.ask(TAKE, *values)
            if row["taken"]:
                return None
            if row["reason"] is not None:
                return str(row["reason"])
            # Somebody took it at this moment; the next look shows who.
        return reason

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Return whether this token may still count on the lock: while the instance does."""
        return self._services.instance.is_trusted or await self.holds(owner, session, token)

    async def holds(self, owner: str, session: str, token: str) -> bool:
        """Return whether this token holds the lock."""
        return bool(await self._database.ask(IS_HELD, owner, session, token))

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Release the lock if this token holds it; return whether it did."""
        return await self._database.run(RELEASE, owner, session, token) > 0

    async def rest(self, owner: str, session: str, token: str, resting: bool) -> None:
        """Note whether the holder of this token waits in a hold."""
        await self._database.run(REST, owner, session, token, resting)

    async def find(self, owner: str, session: str) -> HeldLock | None:
        """Return who holds the lock now."""
        rows = await self._database.ask(FIND, owner, session)
        return HeldLock(*rows[0]) if rows else None
