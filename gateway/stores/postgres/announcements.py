"""Which sessions have reminders that are to be announced when they are due.

`documents.ready_ms` says when to look at a session's reminders next. It is set where somebody
listens to the session (`heads.heard_until`) or its owner has a webhook; all others cost nothing.
Each write of reminders sets it to the earliest of them, perhaps one that was announced before: then
the look finds nothing new, and moves it on. Whoever looks takes the session for a while; if he dies
before he has moved it on, another one looks again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.stores.delivery_rows import ReadySession
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.statements import NOW_MS

KIND = "clock"
# How long the others leave a session to who looks at it.
TAKEN_MS = 30_000
AT_ONCE = 50


def is_listened_to(owner: str, session: str) -> str:
    """Write the condition that somebody listens to a session."""
    return f"""EXISTS (SELECT 1 FROM @heads h WHERE h.owner = {owner} AND h.session = {session}
        AND h.heard_until > {NOW_MS})"""


WATCH = f"""UPDATE @documents SET ready_ms = due_ms
    WHERE owner = $1 AND session = $2 AND kind = '{KIND}' AND ready_ms IS NULL"""
WATCH_ALL = f"""UPDATE @documents SET ready_ms = due_ms
    WHERE owner = $1 AND kind = '{KIND}' AND ready_ms IS NULL AND due_ms IS NOT NULL"""
TAKE = f"""UPDATE @documents d
    SET ready_ms = CASE WHEN d.owner = ANY ($3) OR {is_listened_to("d.owner", "d.session")}
        THEN $2::bigint END
    FROM (SELECT owner, session, kind FROM @documents WHERE ready_ms <= $1
        ORDER BY ready_ms LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED) taken
    WHERE d.owner = taken.owner AND d.session = taken.session AND d.kind = taken.kind
    RETURNING d.owner, d.session, d.ready_ms"""
MOVE_ON = f"""UPDATE @documents SET ready_ms = $4
    WHERE owner = $1 AND session = $2 AND kind = '{KIND}' AND ready_ms = $3"""
NEXT = "SELECT min(ready_ms) AS ready_ms FROM @documents WHERE ready_ms IS NOT NULL"


class PostgresAnnouncements:
    """The sessions whose reminders are announced, of all instances."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.owners: frozenset[str] = frozenset()
        """Whose sessions are all watched, since these owners have webhooks."""

    def use_owners(self, owners: Iterable[str]) -> None:
        """Watch all sessions of exactly these owners, from their next change on."""
        self.owners = frozenset(owners)

    async def watch(self, owner: str, session: str) -> None:
        """Watch the reminders that a session has already."""
        await self._database.run(WATCH, owner, session)

    async def watch_all(self, owner: str) -> None:
        """Watch the reminders that the sessions of an owner have already."""
        await self._database.run(WATCH_ALL, owner)

    async def take(self, now_ms: int) -> list[ReadySession]:
        """Take some sessions that are to be looked at, the first first."""
        values = (now_ms, now_ms + TAKEN_MS, list(self.owners))
        rows = await self._database.ask(TAKE, *values)
        return [ReadySession(*row) for row in rows if row["ready_ms"] is not None]

    async def move_on(self, taken: ReadySession, next_ms: int | None) -> None:
        """Say when to look at a session next, unless its reminders were changed meanwhile."""
        await self._database.run(MOVE_ON, *taken, next_ms)

    async def next_ready_ms(self) -> int | None:
        """Return when the next session is to be looked at."""
        (row,) = await self._database.ask(NEXT)
        ready_ms: int | None = row["ready_ms"]
        return ready_ms
