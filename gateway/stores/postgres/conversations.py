"""Conversations of agents and snapshots of relay sessions, on PostgreSQL.

A conversation is a row for each exchange; the number of the newest one is its version. An exchange
is appended by the statement that releases its lock, and only while its token holds the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import msgspec
from asyncpg import Record
from msgspec.structs import replace

from gateway.stores.conversation_rows import LONGEST, AgentConversation, Snapshot, TalkAddition
from gateway.stores.documents import Conflict
from gateway.stores.job_content import encode_row
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.services import SharedServices
from gateway.stores.postgres.statements import NUMBER_NOW

KEY = "owner = $1 AND session = $2 AND agent = $3"
FIND = f"SELECT number, updated_ms, messages FROM @talks WHERE {KEY} ORDER BY number"
OF_SESSION = """SELECT agent, number, updated_ms, messages FROM @talks
    WHERE owner = $1 AND session = $2 ORDER BY agent, number"""
LOCK_NEWEST = f"SELECT number FROM @talks WHERE {KEY} AND is_newest FOR UPDATE"
# Not what somebody else has put there since.
CLEAR = f"DELETE FROM @talks WHERE {KEY} AND number <= $4"
PUT = f"""INSERT INTO @talks
    (owner, session, agent, number, is_newest, updated_ms, token, messages)
    VALUES ($1, $2, $3, greatest($4::bigint + 1, {NUMBER_NOW}), true, $5, '', $6)
    ON CONFLICT DO NOTHING RETURNING number"""
# Without a token nothing is locked, and so nothing has to be released.
APPEND = f"""WITH freed AS (
        DELETE FROM @locks WHERE owner = $1 AND session = $2 AND token = $4 RETURNING 1),
    paid AS (
        DELETE FROM @owed WHERE owner = $1 AND run_id = $8
            AND EXISTS (SELECT 1 FROM freed) RETURNING 1),
    granted AS (
        SELECT 1 WHERE ($4 = '' OR EXISTS (SELECT 1 FROM freed))
            AND ($8 = '' OR EXISTS (SELECT 1 FROM paid))),
    noted AS (
        UPDATE @runs SET run = $9 WHERE owner = $1 AND run_id = $8
            AND EXISTS (SELECT 1 FROM paid)),
    old AS (
        UPDATE @talks SET is_newest = false WHERE {KEY} AND is_newest
            AND EXISTS (SELECT 1 FROM granted) RETURNING number),
    trimmed AS (
        DELETE FROM @talks WHERE {KEY} AND number < $7 AND NOT is_newest
            AND EXISTS (SELECT 1 FROM granted))
    INSERT INTO @talks (owner, session, agent, number, is_newest, updated_ms, token, messages)
    SELECT $1, $2, $3, greatest(coalesce((SELECT max(number) FROM old), 0) + 1, {NUMBER_NOW}),
        true, $5, $4, $6 FROM granted
    RETURNING number"""
WAS_APPENDED = f"SELECT number FROM @talks WHERE {KEY} AND token = $4 AND token <> ''"
NEWEST = """SELECT updated_ms, session, agent FROM @talks WHERE owner = $1 AND is_newest
    ORDER BY updated_ms DESC, session DESC, agent DESC LIMIT $2"""
# A session has one exchange at a time, so two agents of one never end in the same instant.
NEXT = """SELECT updated_ms, session, agent FROM @talks
    WHERE owner = $1 AND is_newest AND (updated_ms, session) < ($2, $3)
    ORDER BY updated_ms DESC, session DESC, agent DESC LIMIT $4"""
UPDATED = """SELECT updated_ms, session, agent FROM @talks
    WHERE owner = $1 AND session = ANY ($2) AND is_newest
    ORDER BY updated_ms DESC, session DESC, agent DESC"""
# Each owner is one step in the index; to read all rows would take long.
OWNERS = """WITH RECURSIVE found AS (
        (SELECT owner FROM @talks WHERE is_newest ORDER BY owner LIMIT 1)
        UNION ALL
        SELECT (SELECT t.owner FROM @talks t WHERE t.is_newest AND t.owner > found.owner
            ORDER BY t.owner LIMIT 1)
        FROM found WHERE found.owner IS NOT NULL)
    SELECT owner FROM found WHERE owner IS NOT NULL"""
FORGET = """WITH gone AS (
        DELETE FROM @talks WHERE owner = $1 AND session = $2 RETURNING agent),
    snapshot AS (DELETE FROM @snapshots WHERE owner = $1 AND session = $2)
    SELECT count(DISTINCT agent) AS agents FROM gone"""
SNAPSHOT = """SELECT dialect, model, body, answer, updated_ms, headers FROM @snapshots
    WHERE owner = $1 AND session = $2"""
KEEP_SNAPSHOT = """INSERT INTO @snapshots AS s
    (owner, session, dialect, model, body, answer, updated_ms, headers)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (owner, session) DO UPDATE SET dialect = excluded.dialect, model = excluded.model,
        body = excluded.body, answer = excluded.answer, updated_ms = excluded.updated_ms,
        headers = excluded.headers
    WHERE s.updated_ms <= excluded.updated_ms"""

_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...])


class PostgresConversations:
    """The `ConversationRows` of a PostgreSQL; without a time the store sets it."""

    def __init__(self, services: SharedServices) -> None:
        self._services = services
        self._database = services.database

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        """Return a conversation."""
        rows = await self._database.ask(FIND, owner, session, agent)
        return _join((owner, agent, session), rows) if rows else None

    async def of_session(self, owner: str, session: str) -> list[AgentConversation]:
        """Return the conversations of a session, with whatever agent, the newest first."""
        rows = await self._database.ask(OF_SESSION, owner, session)
        found = [
            _join((owner, agent, session), list(of_agent))
            for agent, of_agent in groupby(rows, lambda row: str(row["agent"]))
        ]
        return sorted(found, key=lambda one: (one.updated_ms, one.version), reverse=True)

    async def put(self, conversation: AgentConversation) -> int:
        """Replace the conversation of the given version (0: new); return the new version."""
        updated_ms = conversation.updated_ms or self._services.now_ms()
        return await self._database.change(partial(_put, conversation, updated_ms))

    async def append(self, addition: TalkAddition) -> int:
        """Append an exchange, and release its lock; return the new version.

        Raise `Conflict` if its token does not hold the lock, or if its result is not owed any more.
        """
        key = (addition.owner, addition.session, addition.agent)
        values = (addition.token, self._services.now_ms(), addition.messages)
        told = addition.told
        paid = ("", b"") if told is None else (told.run_id, encode_row(replace(told, owed=False)))
        rows = await self._database.ask(APPEND, *key, *values, addition.first, *paid)
        if not rows:
            # Perhaps it was done, and the connection broke before anybody was told.
            rows = await self._database.ask(WAS_APPENDED, *key, addition.token)
        if not rows:
            self._services.note("late_write", what="exchange", owner=addition.owner)
            raise Conflict("The session was taken over or deleted meanwhile.")
        return int(rows[0]["number"])

    async def listing(
        self, owner: str, before: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Return a page of an owner's conversations, newest first."""
        if before is None:
            rows = await self._database.ask(NEWEST, owner, limit)
        else:
            rows = await self._database.ask(NEXT, owner, *before, limit)
        return [(row["updated_ms"], row["session"], row["agent"]) for row in rows]

    async def find_updated(self, owner: str, sessions: Sequence[str]) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent) of these sessions, newest first."""
        rows = await self._database.ask(UPDATED, owner, list(sessions))
        return [(row["updated_ms"], row["session"], row["agent"]) for row in rows]

    async def list_owners(self) -> list[str]:
        """Return the owners of all conversations."""
        return [row["owner"] for row in await self._database.ask(OWNERS)]

    async def forget(self, owner: str, session: str) -> int:
        """Delete a session's conversations and its snapshot; return how many conversations."""
        (row,) = await self._database.ask(FORGET, owner, session)
        return int(row["agents"])

    async def snapshot(self, owner: str, session: str) -> Snapshot | None:
        """Return the snapshot of a relay session."""
        rows = await self._database.ask(SNAPSHOT, owner, session)
        return _read_snapshot(rows[0]) if rows else None

    async def keep_snapshot(self, owner: str, session: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a relay session, unless there is a newer one."""
        seen = (snapshot.model.encode(), snapshot.body, snapshot.answer.encode())
        headers = msgspec.json.encode(snapshot.headers)
        updated_ms = snapshot.updated_ms or self._services.now_ms()
        values = (owner, session, snapshot.dialect, *seen, updated_ms, headers)
        await self._database.run(KEEP_SNAPSHOT, *values)


async def _put(conversation: AgentConversation, updated_ms: int, connection: Connection) -> int:
    key = (conversation.owner, conversation.session, conversation.agent)
    newest = await connection.ask_one(LOCK_NEWEST, *key)
    number = newest["number"] if newest is not None else 0
    if number != conversation.version:
        raise Conflict("The conversation was continued by somebody else.")
    await connection.run(CLEAR, *key, number)
    row = await connection.ask_one(PUT, *key, number, updated_ms, conversation.messages)
    if row is None:
        raise Conflict("The conversation was continued by somebody else.")
    return int(row["number"])


def _join(key: tuple[str, str, str], rows: Sequence[Record]) -> AgentConversation:
    """Join the newest exchanges of a conversation to one JSON array, as many as there is room."""
    size, count = 0, 0
    for row in reversed(rows):
        size += len(row["messages"])
        if count and size > LONGEST:
            break
        count += 1
    kept, newest = rows[-count:], rows[-1]
    messages = join_messages([row["messages"] for row in kept])
    first = 0 if count == len(rows) else kept[0]["number"]
    return AgentConversation(*key, messages, newest["number"], newest["updated_ms"], first)


def join_messages(exchanges: Sequence[bytes]) -> bytes:
    """Join the messages of exchanges, each a JSON array, to one array."""
    if len(exchanges) == 1:
        return exchanges[0]
    parts = [part for exchange in exchanges if (part := exchange.strip()[1:-1].strip())]
    return b"[%s]" % b",".join(parts)


def _read_snapshot(row: Record) -> Snapshot | None:
    try:
        return Snapshot(
            dialect=row["dialect"],
            model=row["model"].decode(),
            body=row["body"],
            answer=row["answer"].decode(),
            updated_ms=row["updated_ms"],
            headers=_headers.decode(row["headers"]),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # It counts as missing: the session's next request replaces it.
        return None
