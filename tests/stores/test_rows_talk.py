"""Conversations, snapshots and locks: one contract for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from gateway.stores import Conflict, Rows
from gateway.stores.conversation_rows import AgentConversation, LockRows, Snapshot
from gateway.stores.sqlite.conversations import MemoryLocks, SqliteLocks

from .row_backends import (
    ALL,
    DURABLE,
    NAMES,
    NOON,
    AnyBackend,
    RowBackend,
    find_backend,
)

HELLO = AgentConversation("ann", "agent", "s", b'[{"role":"user","content":"Hello \xc3\xa7"}]')
SEEN = Snapshot("openai-chat", "m", b'{"a":"\x00\xff"}', "Hi \0 🦆", 5, (("x-beta", "one, two"),))


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AnyBackend:
    return find_backend(request.param, tmp_path)


@pytest.fixture
async def rows(backend: AnyBackend) -> AsyncIterator[Rows]:
    async with backend.opened() as opened:
        yield opened


@pytest.fixture
def locks(rows: Rows) -> LockRows:
    return rows.locks


async def test_where_nobody_has_spoken(rows: Rows) -> None:
    talk = rows.conversations
    assert await talk.get("ann", "agent", "s") is None
    assert await talk.of_session("ann", "s") == []
    assert await talk.listing("ann", None, 10) == []
    assert await talk.snapshot("ann", "s") is None
    assert await talk.forget("ann", "s") == 0


async def test_when_sessions_were_talked_in_and_whose_they_are(rows: Rows) -> None:
    talk = rows.conversations
    assert await talk.find_updated("ann", ["s"]) == []
    assert await talk.list_owners() == []
    for owner, agent, session, at_ms in (
        ("ann", "one", "s", 3),
        ("ann", "two", "s", 5),
        ("ann", "one", "t", 4),
        ("bob", "one", "s", 9),
    ):
        await talk.put(AgentConversation(owner, agent, session, updated_ms=at_ms))
    found = await talk.find_updated("ann", ["t", "s", "unknown"])
    assert found == [(5, "s", "two"), (4, "t", "one"), (3, "s", "one")]
    assert await talk.find_updated("ann", ["t"]) == [(4, "t", "one")]
    assert sorted(await talk.list_owners()) == ["ann", "bob"]


async def test_a_conversation_that_goes_on(rows: Rows) -> None:
    talk = rows.conversations
    first = await talk.put(HELLO)
    assert await talk.get("ann", "agent", "s") == replace(HELLO, version=first, updated_ms=NOON)
    longer = replace(HELLO, messages=b"[1]" * 500_000, version=first, updated_ms=7)
    second = await talk.put(longer)
    assert second > first > 0
    assert await talk.get("ann", "agent", "s") == replace(longer, version=second)


async def test_a_conversation_that_somebody_else_continued(rows: Rows) -> None:
    talk = rows.conversations
    version = await talk.put(HELLO)
    for stale in (0, version + 1):
        with pytest.raises(Conflict):
            await talk.put(replace(HELLO, messages=b"[]", version=stale))
    await talk.forget("ann", "s")
    # A version that was once is none of a conversation that began anew.
    again = await talk.put(HELLO)
    assert again > version
    with pytest.raises(Conflict):
        await talk.put(replace(HELLO, version=version))


async def test_conversations_are_apart(rows: Rows) -> None:
    talk = rows.conversations
    others = [
        replace(HELLO, owner="bob"),
        replace(HELLO, agent="other", updated_ms=NOON + 1),
        replace(HELLO, session="t"),
    ]
    for one in (HELLO, *others):
        await talk.put(one)
    assert [one.agent for one in await talk.of_session("ann", "s")] == ["other", "agent"]
    await talk.keep_snapshot("ann", "s", SEEN)
    await talk.keep_snapshot("bob", "s", SEEN)
    assert await talk.forget("ann", "s") == 2
    assert await talk.of_session("ann", "s") == []
    assert await talk.snapshot("ann", "s") is None
    assert await talk.snapshot("bob", "s") == SEEN
    assert await talk.get("bob", "agent", "s") is not None
    assert await talk.get("ann", "agent", "t") is not None


async def test_a_listing_in_pages(rows: Rows) -> None:
    talk = rows.conversations
    for number in range(7):
        await talk.put(replace(HELLO, session=f"s{number}", updated_ms=10 + number // 2))
    await talk.put(replace(HELLO, owner="bob", updated_ms=99))
    found: list[tuple[int, str, str]] = []
    while page := await talk.listing("ann", found[-1][:2] if found else None, 2):
        assert len(page) <= 2
        found += page
    assert [session for _, session, _ in found] == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
    assert found[0] == (13, "s6", "agent")


async def test_one_of_those_who_continue_at_once_wins(rows: Rows) -> None:
    outcomes: list[str] = []

    async def put(number: int) -> None:
        try:
            await rows.conversations.put(replace(HELLO, messages=b"%d" % number))
            outcomes.append("kept")
        except Conflict:
            outcomes.append("conflict")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(put, number)
    assert outcomes.count("kept") == 1


async def test_a_snapshot_takes_the_place_of_the_last(rows: Rows) -> None:
    talk = rows.conversations
    await talk.keep_snapshot("ann", "s", SEEN)
    assert await talk.snapshot("ann", "s") == SEEN
    newer = Snapshot("anthropic", "n", b"x" * 2_000_000, "")
    await talk.keep_snapshot("ann", "s", newer)
    assert await talk.snapshot("ann", "s") == replace(newer, updated_ms=NOON)
    assert await talk.snapshot("ann", "t") is None


@pytest.mark.parametrize("name", DURABLE)
async def test_what_was_said_is_found_again(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        version = await rows.conversations.put(HELLO)
        await rows.conversations.keep_snapshot("ann", "s", SEEN)
    async with backend.opened() as rows:
        kept = await rows.conversations.get("ann", "agent", "s")
        assert kept == replace(HELLO, version=version, updated_ms=NOON)
        assert await rows.conversations.snapshot("ann", "s") == SEEN


async def test_a_lock_has_one_holder(locks: LockRows) -> None:
    assert await locks.take("ann", "s", "one", "chat", 100) is None
    assert await locks.take("ann", "s", "two", "job", 100) == "chat"
    assert await locks.take("ann", "t", "two", "job", 100) is None
    assert await locks.take("bob", "s", "two", "job", 100) is None
    # To take what is one's own is to go on with it.
    assert await locks.take("ann", "s", "one", "chat", 100) is None
    assert await locks.release("ann", "s", "one")
    assert await locks.take("ann", "s", "two", "job", 100) is None


async def test_only_its_token_frees_a_lock(locks: LockRows) -> None:
    assert not await locks.release("ann", "s", "one")
    await locks.take("ann", "s", "one", "chat", 100)
    assert not await locks.release("ann", "s", "two")
    assert await locks.take("ann", "s", "two", "job", 100) == "chat"
    assert await locks.release("ann", "s", "one")
    assert not await locks.release("ann", "s", "one")


@pytest.mark.parametrize("name", NAMES)
async def test_a_lease_that_ends(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        locks = rows.locks
        await locks.take("ann", "s", "one", "chat", 100)
        assert not await locks.extend("ann", "s", "two", 100)
        backend.lease_ms = 99
        assert await locks.take("ann", "s", "two", "job", 100) == "chat"
        assert await locks.extend("ann", "s", "one", 100)
        backend.lease_ms = 198
        assert await locks.take("ann", "s", "two", "job", 100) == "chat"
        backend.lease_ms = 199
        assert await locks.take("ann", "s", "two", "job", 100) is None
        assert not await locks.extend("ann", "s", "one", 100)
        assert not await locks.release("ann", "s", "one")
        # A lease that ended is renewed as long as nobody else wanted the lock.
        backend.lease_ms = 1_000
        assert await locks.extend("ann", "s", "two", 100)


async def test_of_many_who_take_a_lock_at_once_one_has_it(locks: LockRows) -> None:
    answers: list[str | None] = []

    async def take(number: int) -> None:
        answers.append(await locks.take("ann", "s", str(number), str(number), 100))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(take, number)
    [winner] = {answer for answer in answers if answer is not None}
    assert answers.count(None) == 1
    assert await locks.release("ann", "s", winner)


@pytest.mark.parametrize("name", DURABLE)
async def test_locks_outlive_only_a_process_that_is_not_alone(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        await rows.locks.take("ann", "s", "one", "chat", 100)
        assert isinstance(rows.locks, SqliteLocks if name == "shared" else MemoryLocks)
    async with backend.opened() as rows:
        left = await rows.locks.take("ann", "s", "two", "job", 100)
        assert left == ("chat" if name == "shared" else None)
