"""What rows of a shared store do beyond the contract: holders, burial, posts, talks, repetition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.stores.conversation_rows import AgentConversation, Snapshot, TalkAddition
from gateway.stores.delivery_rows import ItemReservation, OutboxItem, Post, SessionEvent
from gateway.stores.documents import Conflict
from gateway.stores.postgres.database import Database, Work
from tests.stores.row_backends import STEP, claim_one, cut, due, ended, idle, job, same, tells

from .rows import OpenedRows, PostgresRowBackend

R = TypeVar("R")

KEEP = 20
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture(params=["postgres", "pooled"])
def backend(request: pytest.FixtureRequest) -> PostgresRowBackend:
    return PostgresRowBackend(request.param)


@pytest.fixture
async def here(backend: PostgresRowBackend) -> AsyncIterator[OpenedRows]:
    async with backend.opened() as rows:
        yield rows


@pytest.fixture
async def there(backend: PostgresRowBackend, here: OpenedRows) -> AsyncIterator[OpenedRows]:
    """Another instance on the same database."""
    async with backend.opened() as rows:
        yield rows


def item(item_id: str, text: str = "Done.") -> OutboxItem:
    return OutboxItem(item_id, "ann", "s", 1, text, "j", "r", "name")


def event(key: str, session: str = "s") -> SessionEvent:
    return SessionEvent("ann", session, "run.finished", key, 1, b"{}")


async def claim(rows: OpenedRows, now_ms: int = STEP) -> Run:
    claimed = await claim_one(rows.jobs, now_ms, "", 0, due)
    assert claimed is not None
    return claimed.runs[-1]


# Runs and their holders.


async def test_a_run_is_its_instances_until_that_is_buried(
    backend: PostgresRowBackend, here: OpenedRows, there: OpenedRows
) -> None:
    await here.jobs.add(job(), same, 9)
    run = await claim(here)
    assert await here.jobs.extend(run.run_id, "", 0)
    assert not await there.jobs.extend(run.run_id, "", 0)
    assert await there.jobs.finish(ended(run), idle, KEEP, tells(item("r"))) is None
    assert backend.notes == ["late_write"]
    assert await there.jobs.end_lapsed(0, cut) == []
    await here.bury()
    [over] = await there.jobs.end_lapsed(0, cut)
    assert over == replace(run, status="interrupted")
    assert await there.jobs.end_lapsed(0, cut) == []
    assert not await here.jobs.extend(run.run_id, "", 0)
    # Whoever comes late with the end of it is not heard.
    assert await here.jobs.finish(ended(run), idle, KEEP, tells(item("r"))) is None
    assert await there.deliveries.pending("ann", "s") == []
    assert (await claim(there, 2 * STEP)).due_ms == 2 * STEP


async def test_the_run_of_an_instance_without_a_row_is_ended(
    here: OpenedRows, there: OpenedRows
) -> None:
    await here.jobs.add(job(), same, 9)
    run = await claim(here)
    await here.database.run("DELETE FROM @instances WHERE id = $1", here.instance.id)
    assert [one.run_id for one in await there.jobs.end_lapsed(0, cut)] == [run.run_id]


async def test_an_instance_whose_lease_lapsed_is_buried_with_its_runs(
    here: OpenedRows, there: OpenedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.jobs.add(job(), same, 9)
    run = await claim(here)
    lapse = "UPDATE @instances SET until = clock_timestamp() - interval '1 s' WHERE id = $1"
    await here.database.run(lapse, here.instance.id)
    # An instance that has just come does not bury others.
    assert not there.instance.may_bury
    assert await there.jobs.end_lapsed(0, cut) == []
    monkeypatch.setattr(type(there.instance), "may_bury", True)
    told = tells(events=(event("cut"),))
    assert [one.run_id for one in await there.jobs.end_lapsed(0, cut, told)] == [run.run_id]
    assert len(await there.deliveries.events("ann", "s", 0, 9)) == 1
    rows = await there.database.ask("SELECT id FROM @instances WHERE buried")
    assert [row["id"] for row in rows] == [here.instance.id]


async def test_a_run_that_is_not_to_be_ended_is_left(here: OpenedRows, there: OpenedRows) -> None:
    await here.jobs.add(job(), same, 9)
    await claim(here)
    await here.bury()
    assert await there.jobs.end_lapsed(0, lambda one, run: None) == []
    assert [run.status for run in await there.jobs.runs("j", 9)] == ["running"]


async def test_a_corrupt_row_hurts_only_itself(
    backend: PostgresRowBackend, here: OpenedRows
) -> None:
    for one in ("a", "b", "c"):
        await here.jobs.add(job(one), same, 9)
    run = await claim(here)
    assert run.job_id == "a"
    await here.jobs.finish(ended(run, owed=True), idle, KEEP)
    for table, column, key in (("jobs", "job", "job_id = 'b'"), ("owed", "run", "true")):
        await here.database.run(f"UPDATE @{table} SET {column} = '[' WHERE {key}")
    assert [one.job_id for one in await here.jobs.listing("ann")] == ["a", "c"]
    assert await here.jobs.list_owed() == []
    await here.database.run("UPDATE @runs SET run = '[' WHERE job_id = 'a'")
    assert await here.jobs.runs("a", 9) == []
    assert [name for name, _ in backend.quarantined] == ["jobs/b", "owed/a-1000", "runs/a-1000"]
    rows = await here.database.ask("SELECT kind, id FROM @corrupt_rows ORDER BY kind")
    assert [tuple(row) for row in rows] == [("jobs", "b"), ("owed", "a-1000"), ("runs", "a-1000")]
    # The owner has room for one more now.
    assert await here.jobs.add(job("d"), same, 3) == (job("d"), False)


# Owed results.


async def test_an_owed_result_is_returned_by_one_instance(
    here: OpenedRows, there: OpenedRows
) -> None:
    for name in ("a", "b"):
        await here.jobs.add(job(name), same, 9)
    for _ in range(2):
        await here.jobs.finish(ended(await claim(here), owed=True), idle, KEEP)
    [(_, first)] = await here.jobs.take_owed()
    assert first.job_id == "a"
    # The later one of the session waits for the first, and the first is not for others.
    assert await there.jobs.take_owed() == []
    assert not await there.jobs.settle_owed(first.run_id)
    assert len(await there.jobs.list_owed()) == 2
    assert len(await here.jobs.take_owed()) == 1
    await here.bury()
    assert [run.job_id for _, run in await there.jobs.take_owed()] == ["a"]
    assert not await here.jobs.settle_owed(first.run_id)
    assert await there.jobs.settle_owed(first.run_id)
    assert [run.job_id for _, run in await there.jobs.take_owed()] == ["b"]


async def test_a_result_is_paid_with_the_exchange_that_told_it(
    here: OpenedRows, there: OpenedRows
) -> None:
    await here.jobs.add(job(), same, 9)
    done = ended(await claim(here), owed=True)
    await here.jobs.finish(done, idle, KEEP)
    assert await here.locks.take("ann", "s", "t1", "job", 0) is None
    told = TalkAddition("ann", "agent", "s", b'["a"]', token="t1", told=done)
    await here.appender.append(told)
    assert await there.jobs.list_owed() == []
    assert await there.jobs.get_run(done.run_id) == replace(done, owed=False)
    # A result that is not owed any more is not told: its session may be deleted.
    assert await here.locks.take("ann", "s", "t2", "job", 0) is None
    with pytest.raises(Conflict):
        await here.appender.append(told._replace(token="t2"))


# Conversations.


async def messages_of(rows: OpenedRows) -> bytes:
    found = await rows.conversations.get("ann", "agent", "s")
    assert found is not None
    return found.messages


async def test_exchanges_are_appended_and_their_lock_is_released(
    here: OpenedRows, there: OpenedRows
) -> None:
    last = 0
    for number, rows in enumerate((here, there, here)):
        token = str(number)
        assert await rows.locks.take("ann", "s", token, "chat", 0) is None
        addition = TalkAddition("ann", "agent", "s", b"[%d]" % number, token)
        version = await rows.appender.append(addition)
        assert version > last
        last = version
        assert await rows.shared_locks.find("ann", "s") is None
    assert await messages_of(there) == b"[0,1,2]"
    found = await there.conversations.get("ann", "agent", "s")
    assert found is not None
    assert found.version == last
    assert await there.conversations.listing("ann", None, 9) == [(found.updated_ms, "s", "agent")]
    rest = TalkAddition("ann", "agent", "s", b"[]", first=last)
    await here.appender.append(rest)
    assert await messages_of(here) == b"[2]"


async def test_who_has_lost_the_lock_appends_nothing(here: OpenedRows, there: OpenedRows) -> None:
    assert await here.locks.take("ann", "s", "mine", "chat", 0) is None
    await here.bury()
    assert await there.locks.take("ann", "s", "theirs", "chat", 0) is None
    with pytest.raises(Conflict):
        await here.appender.append(TalkAddition("ann", "agent", "s", b"[1]", "mine"))
    await there.appender.append(TalkAddition("ann", "agent", "s", b"[2]", "theirs"))
    assert await messages_of(there) == b"[2]"


async def test_an_imported_conversation_goes_on(here: OpenedRows) -> None:
    await here.conversations.put(AgentConversation("ann", "agent", "s", b'[ "a", "b" ]'))
    await here.appender.append(TalkAddition("ann", "agent", "s", b"[3]"))
    assert await messages_of(here) == b'["a", "b",3]'


async def test_an_older_snapshot_does_not_replace_a_newer_one(
    here: OpenedRows, there: OpenedRows
) -> None:
    newer = Snapshot("openai-chat", "m", b"{}", "new\0", 20)
    await here.conversations.keep_snapshot("ann", "s", newer)
    await there.conversations.keep_snapshot("ann", "s", replace(newer, answer="old", updated_ms=10))
    assert await there.conversations.snapshot("ann", "s") == newer


# Locks.


async def test_a_lock_is_taken_over_only_from_an_instance_that_is_buried(
    here: OpenedRows, there: OpenedRows
) -> None:
    assert await here.locks.take("ann", "s", "mine", "chat", 0) is None
    assert await there.locks.take("ann", "s", "theirs", "job", 0) == "chat"
    assert await here.locks.extend("ann", "s", "mine", 0)
    held = await there.shared_locks.find("ann", "s")
    assert held is not None
    assert (held.holder, held.reason, held.resting) == (here.instance.id, "chat", False)
    await here.shared_locks.rest("ann", "s", "mine", True)
    held = await there.shared_locks.find("ann", "s")
    assert held is not None
    assert held.resting
    await here.bury()
    assert await there.shared_locks.find("ann", "s") is None
    assert await there.locks.take("ann", "s", "theirs", "job", 0) is None
    assert not await here.locks.release("ann", "s", "mine")
    assert await there.shared_locks.holds("ann", "s", "theirs")
    held = await here.shared_locks.find("ann", "s")
    assert held is not None
    assert not held.resting


# Items.


async def test_items_are_reserved_in_the_store(here: OpenedRows, there: OpenedRows) -> None:
    def wanted(token: str, *replaced: str) -> ItemReservation:
        return ItemReservation("ann", "s", ("a", "x", "b"), token, replaced)

    for name in "ab":
        await here.deliveries.add(item(name, "0\0"))
    assert await here.deliveries.reserve(wanted("one")) == ("a", "b")
    assert await there.deliveries.reserve(wanted("two")) == ()
    assert [one.token for one in await there.deliveries.pending("ann", "s")] == ["one", "one"]
    # The same once more, as after a broken connection.
    assert await here.deliveries.reserve(wanted("one")) == ("a", "b")
    assert await there.deliveries.deliver("ann", "s", ("b",)) == ("b",)
    assert await there.deliveries.reserve(wanted("two", "one")) == ("a",)
    await here.deliveries.release("ann", "s", "one")
    assert [one.token for one in await here.deliveries.pending("ann", "s")] == ["two"]
    await there.bury()
    assert [one.token for one in await here.deliveries.pending("ann", "s")] == [""]
    assert await here.deliveries.reserve(wanted("three")) == ("a",)
    await here.deliveries.release("ann", "s", "three")
    assert [one.text for one in await here.deliveries.pending("ann", "s")] == ["0\0"]


async def test_a_delivery_is_stored_with_its_event(here: OpenedRows) -> None:
    await here.deliveries.add(item("a"))
    assert await here.deliveries.deliver("ann", "s", ("a", "b"), event) == ("a",)
    assert await here.deliveries.deliver("ann", "s", ("a",), event) == ()
    assert [one.key for one in await here.deliveries.events("ann", "s", 0, 9)] == ["a"]


async def test_a_session_that_was_deleted_gives_no_number_twice(here: OpenedRows) -> None:
    before = [await here.deliveries.note(event(str(number))) for number in range(5)]
    await here.deliveries.forget("ann", "s")
    after = await here.deliveries.note(event("0"))
    assert after is not None
    assert all(one is not None and one.seq < after.seq for one in before)


# Posts.


async def test_posts_are_made_with_their_events_and_taken_in_order(
    here: OpenedRows, there: OpenedRows
) -> None:
    for rows in (here, there):
        assert rows.posts is not None
        rows.posts.use_hooks({"ann": ["one"]})
    ours, theirs = here.posts, there.posts
    assert ours is not None
    assert theirs is not None
    for key, session in (("a", "s"), ("b", "s"), ("c", "t")):
        await here.deliveries.note(event(key, session))
    assert await here.deliveries.note(event("a")) is None
    assert await ours.take_posts(["other"], 9, 9) == []
    taken = await ours.take_posts(["one"], 9, 9)
    assert [(post.event.key, post.tries) for post in taken] == [("a", 1), ("c", 1)]
    assert await theirs.take_posts(["one"], 9, 9) == []
    assert not await theirs.settle_post(taken[0])
    assert await ours.settle_post(taken[0])
    assert await ours.delay_post(taken[1], 50)
    assert [post.event.key for post in await theirs.take_posts(["one"], 9, 9)] == ["b"]
    assert await theirs.next_post_ms(["one"]) == 50
    assert [post.tries for post in await ours.take_posts(["one"], 50, 9)] == [2]
    await there.bury()
    assert [post.event.key for post in await ours.take_posts(["one"], 50, 9)] == ["b"]


async def test_a_post_whose_event_is_gone_goes_too(here: OpenedRows) -> None:
    posts = here.posts
    assert posts is not None
    posts.use_hooks({"ann": ["one"]})
    await here.deliveries.note(event("a"))
    await here.deliveries.prune(2)
    assert await posts.take_posts(["one"], 9, 9) == []
    assert await posts.next_post_ms(["one"]) is None


# Chores and endings.


async def test_a_chore_is_one_instances(here: OpenedRows, there: OpenedRows) -> None:
    taken = [await rows.operators.chores.take("prune", 60_000) for rows in (here, there, here)]
    assert taken == [True, False, False]
    assert await there.operators.chores.take("other", 0)
    assert await here.operators.chores.take("other", 0)


async def test_reminders_that_ended(here: OpenedRows) -> None:
    for at_ms in (1, 2, 3):
        await here.endings.add("ann", "s", at_ms, b"%d" % at_ms)
    assert await here.endings.list_ended("ann", "s", 2) == [(3, b"3"), (2, b"2")]
    assert await here.endings.list_ended("bob", "s", 2) == []
    assert await here.endings.prune(2) == 1
    await here.endings.forget("ann", "s")
    assert await here.endings.list_ended("ann", "s", 2) == []


# A commit whose answer was lost.


class TwiceDatabase(Database):
    """Does each transaction again after it was committed, as if nobody had heard of that."""

    async def change(self, work: Work[R], then: Callable[[R], None] = lambda _: None) -> R:
        await super().change(work)
        return await super().change(work, then)


@pytest.fixture
async def twice(backend: PostgresRowBackend) -> AsyncIterator[OpenedRows]:
    async with backend.opened(kind=TwiceDatabase) as rows:
        yield rows


async def test_what_is_done_again_has_the_outcome_of_the_first_time(twice: OpenedRows) -> None:
    jobs = twice.jobs
    assert await jobs.add(job(), same, 9) == (job(), False)
    assert len(await jobs.listing(None)) == 1
    assert (
        await jobs.change("j", "ann", lambda one: (replace(one, retries=one.retries + 1), 5)) == 5
    )
    changed = replace(job(), retries=1)
    assert await jobs.get("j") == changed
    claimed = await claim_one(jobs, STEP, "", 0, due)
    assert claimed == due(changed)
    assert await jobs.runs("j", 9) == list(claimed.runs)
    given = await jobs.give_back(claimed.runs[0].run_id, lambda one, run: changed)
    assert given == changed
    run = await claim(twice)
    done = ended(run, owed=True)
    told = tells(item("r"), events=(event("done"),))
    left = await jobs.finish(done, idle, KEEP, told)
    assert left is not None
    assert left == await jobs.get("j")
    assert len(await twice.deliveries.pending("ann", "s")) == 1
    assert len(await twice.deliveries.events("ann", "s", 0, 9)) == 1
    assert await jobs.settle_owed(done.run_id, item("owed"))
    assert len(await twice.deliveries.pending("ann", "s")) == 2
    by_hand = await jobs.claim_now("j", None, "", 0, due)
    assert by_hand is not None

    def drop(_: Job) -> None:
        return None

    assert await jobs.finish(ended(by_hand.runs[0]), drop, KEEP, tells(item("last"))) is None
    assert await jobs.listing(None) == []
    # Of the owner's limit nothing is used up.
    assert await jobs.add(job("k"), same, 1) == (job("k"), False)
    assert await jobs.change("k", None, lambda one: (None, "gone")) == "gone"
    assert await jobs.add(job("k"), same, 1) == (job("k"), False)


async def test_a_post_of_no_event_is_nobodys(here: OpenedRows) -> None:
    posts = here.posts
    assert posts is not None
    assert not await posts.settle_post(Post("one", event("x"), 1))
