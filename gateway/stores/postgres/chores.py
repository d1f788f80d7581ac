"""Chores that one instance does at a time, and reminders that ended lately, on PostgreSQL."""

from __future__ import annotations

from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import NOW_MS, PRUNED_AT_ONCE, write_prune

TAKE = f"""INSERT INTO @chores AS c (name, at_ms, holder) VALUES ($1, {NOW_MS} + $2, $3)
    ON CONFLICT (name) DO UPDATE SET at_ms = excluded.at_ms, holder = excluded.holder
    WHERE c.at_ms <= {NOW_MS} RETURNING 1"""
ADD_ENDING = "INSERT INTO @endings (owner, session, at_ms, task) VALUES ($1, $2, $3, $4)"
ENDINGS = """SELECT at_ms, task FROM @endings WHERE owner = $1 AND session = $2
    ORDER BY at_ms DESC LIMIT $3"""
FORGET_ENDINGS = "DELETE FROM @endings WHERE owner = $1 AND session = $2"
PRUNE_ENDINGS = write_prune("endings", "at_ms < $1")


class PostgresChores:
    """Which chores are due, by the database's time."""

    def __init__(self, services: SharedServices) -> None:
        self._services = services
        self._database = services.database

    async def take(self, name: str, every_ms: int) -> bool:
        """Return whether a chore is to be done now, by this instance and no other."""
        me = self._services.instance.id
        return bool(await self._database.ask(TAKE, name, every_ms, me))


class PostgresEndings:
    """The reminders of sessions that ended lately, as they were."""

    def __init__(self, services: SharedServices) -> None:
        self._database = services.database

    async def add(self, owner: str, session: str, at_ms: int, task: bytes) -> None:
        """Note a reminder that ended."""
        await self._database.run(ADD_ENDING, owner, session, at_ms, task)

    async def list_ended(self, owner: str, session: str, limit: int) -> list[tuple[int, bytes]]:
        """Return the reminders that ended, the last first."""
        rows = await self._database.ask(ENDINGS, owner, session, limit)
        return [(row["at_ms"], row["task"]) for row in rows]

    async def forget(self, owner: str, session: str) -> None:
        """Delete those of a session."""
        await self._database.run(FORGET_ENDINGS, owner, session)

    async def prune(self, before_ms: int) -> int:
        """Delete some that are older; return how many."""
        return await self._database.run(PRUNE_ENDINGS, before_ms, PRUNED_AT_ONCE)
