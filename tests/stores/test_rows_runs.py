"""Runs: claimed once, ended once, accounted for; one contract for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import At
from gateway.stores import Rows
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.documents import LATEST
from gateway.stores.job_rows import Claimed, JobRows, RunNews

from .row_backends import (
    ALL,
    DURABLE,
    NAMES,
    STEP,
    RowBackend,
    abandon,
    claim_one,
    cut,
    due,
    ended,
    find_backend,
    idle,
    job,
    manually,
    run,
    same,
    tells,
)

KEEP = 20


@pytest.fixture(params=ALL)
async def rows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rows]:
    async with find_backend(request.param, tmp_path).opened() as opened:
        yield opened


@pytest.fixture
def jobs(rows: Rows) -> JobRows:
    return rows.jobs


async def add(jobs: JobRows, *given: Job) -> None:
    for one in given:
        await jobs.add(one, same, 100)


async def claim(jobs: JobRows, now_ms: int, until_ms: int = 1) -> Run:
    claimed = await claim_one(jobs, now_ms, "me", until_ms, due)
    assert claimed is not None
    return claimed.runs[0]


def item(run_id: str) -> OutboxItem:
    return OutboxItem(f"run:{run_id}", "ann", "s", 1, "Done.", "j", run_id, "name")


async def test_a_job_is_claimed_when_it_is_due(jobs: JobRows) -> None:
    await add(jobs, job())
    assert await claim_one(jobs, STEP - 1, "me", 1, due) is None
    claimed = await claim_one(jobs, STEP, "me", 1, due)
    assert claimed == due(job())
    assert await jobs.get("j") == claimed.job
    assert await jobs.runs("j", 10) == [run(job(), STEP)]


async def test_the_earliest_comes_first(jobs: JobRows) -> None:
    await add(jobs, *(job(name, next_run_ms=at) for name, at in (("a", 30), ("b", 10), ("c", 20))))
    claimed = [(await claim(jobs, 100)).job_id for _ in range(3)]
    assert claimed == ["b", "c", "a"]
    assert await claim_one(jobs, 100, "me", 1, due) is None


async def test_one_that_is_not_wanted_does_not_hide_the_next(jobs: JobRows) -> None:
    await add(jobs, job("a"), job("b"), job("c"))
    seen: list[str] = []

    def only_c(one: Job) -> Claimed | None:
        seen.append(one.job_id)
        return due(one) if one.job_id == "c" else None

    claimed = await claim_one(jobs, STEP, "me", 1, only_c)
    assert claimed is not None
    assert claimed.job.job_id == "c"
    assert seen == ["a", "b", "c"]
    assert await claim_one(jobs, STEP, "me", 1, lambda one: None) is None


async def test_a_job_that_runs_is_not_claimed_again(jobs: JobRows) -> None:
    await add(jobs, job())
    under_way = await claim(jobs, STEP)
    assert await claim_one(jobs, 10 * STEP, "you", 1, due) is None
    assert await jobs.claim_now("j", None, "you", 1, manually(5)) is None
    # Not even if it was changed meanwhile, by somebody who did not look.
    await jobs.change("j", None, lambda one: (job(next_run_ms=0), None))
    assert await claim_one(jobs, 10 * STEP, "you", 1, due) is None
    assert await jobs.next_run_ms() is None
    await jobs.finish(ended(under_way), idle, KEEP)
    assert await jobs.next_run_ms() == 0


async def test_missed_times_are_recorded_with_the_run(jobs: JobRows) -> None:
    await add(jobs, job())

    def late(one: Job) -> Claimed:
        missed = run(one, 4 * STEP, status="missed", missed=4)
        return Claimed(
            replace(one, due_ms=6 * STEP, next_run_ms=6 * STEP), (run(one, 5 * STEP), missed)
        )

    await claim_one(jobs, 5 * STEP, "me", 1, late)
    assert [(one.status, one.missed) for one in await jobs.runs("j", 10)] == [
        ("running", 0),
        ("missed", 4),
    ]


async def test_times_that_were_only_missed_leave_the_job_idle(jobs: JobRows) -> None:
    await add(jobs, job())

    def too_late(one: Job) -> Claimed:
        missed = run(one, 4 * STEP, status="missed", missed=4)
        return Claimed(replace(one, due_ms=5 * STEP, next_run_ms=5 * STEP), (missed,))

    await claim_one(jobs, 4 * STEP, "me", 1, too_late)
    assert await jobs.next_run_ms() == 5 * STEP
    assert (await claim(jobs, 5 * STEP)).due_ms == 5 * STEP


async def test_a_time_that_has_a_row_is_not_given_another(jobs: JobRows) -> None:
    """As when the clock was set back and the job was changed then."""
    await add(jobs, job())
    for _ in range(3):
        await jobs.finish(ended(await claim(jobs, 3 * STEP)), idle, KEEP)
    await jobs.change("j", None, lambda one: (job(), None))
    assert (await claim(jobs, 5 * STEP)).due_ms == 4 * STEP
    assert [one.due_ms for one in await jobs.runs("j", 10)] == [4_000, 3_000, 2_000, 1_000]


async def test_only_times_that_have_a_row_are_due(jobs: JobRows) -> None:
    await add(jobs, job(), job("later", next_run_ms=STEP + 1))
    await jobs.finish(ended(await claim(jobs, STEP)), idle, KEEP)
    await jobs.change("j", None, lambda one: (job(), None))
    assert (await claim(jobs, STEP + 1)).job_id == "later"
    moved = await jobs.get("j")
    assert moved is not None
    assert (moved.due_ms, moved.next_run_ms) == (2 * STEP, 2 * STEP)


async def test_a_single_time_that_has_a_row(jobs: JobRows) -> None:
    single = job(schedule=At(STEP))
    await add(jobs, single)
    await jobs.finish(ended(await claim(jobs, STEP)), idle, KEEP)
    await jobs.change("j", None, lambda one: (single, None))
    assert await claim_one(jobs, STEP, "me", 1, due) is None
    left = await jobs.get("j")
    assert left is not None
    assert (left.enabled, left.next_run_ms) == (False, None)
    assert left.disabled_reason == "The schedule has no further run time."


async def test_by_hand_at_a_time_of_the_schedule(jobs: JobRows) -> None:
    await add(jobs, job())
    await jobs.finish(ended(await claim(jobs, STEP)), idle, KEEP)
    for _ in range(2):
        claimed = await jobs.claim_now("j", "ann", "me", 1, manually(STEP + _))
        assert claimed is not None
        [by_hand] = claimed.runs
        await jobs.finish(ended(by_hand), idle, KEEP)
    assert [one.trigger for one in await jobs.runs("j", 10)] == ["manual", "manual", "timer"]
    assert (await claim(jobs, 2 * STEP)).due_ms == 2 * STEP


@pytest.fixture(params=NAMES)
async def lone_jobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JobRows]:
    """Jobs whose runs have leases of their own."""
    async with RowBackend(request.param, tmp_path).opened() as opened:
        yield opened.jobs


async def test_a_lease_is_its_holders(lone_jobs: JobRows) -> None:
    jobs = lone_jobs
    await add(jobs, job())
    under_way = await claim(jobs, STEP, until_ms=50)
    assert not await jobs.extend(under_way.run_id, "you", 500)
    assert await jobs.extend(under_way.run_id, "me", 100)
    assert await jobs.end_lapsed(100, cut) == []
    assert await jobs.end_lapsed(101, cut) == [replace(under_way, status="interrupted")]
    assert not await jobs.extend(under_way.run_id, "me", 500)


async def test_what_lapsed_is_recorded_and_the_job_goes_on(lone_jobs: JobRows) -> None:
    jobs = lone_jobs
    await add(jobs, job("a"), job("b"), job("c"))
    first, second = [await claim(jobs, STEP, until_ms=until) for until in (10, 90)]
    assert [one.run_id for one in await jobs.end_lapsed(50, cut)] == [first.run_id]
    assert await jobs.end_lapsed(50, cut) == []
    assert await jobs.get("a") == replace(due(job("a")).job, run_id="")
    assert await jobs.next_run_ms() == STEP
    assert [one.run_id for one in await jobs.end_lapsed(LATEST + 5, cut)] == [second.run_id]
    # Whoever comes late with the end of such a run is not heard.
    assert await jobs.finish(ended(first), idle, KEEP, tells(item(first.run_id))) is None
    assert [one.status for one in await jobs.runs("a", 1)] == ["interrupted"]


async def test_the_end_of_a_run(rows: Rows) -> None:
    await add(rows.jobs, job())
    under_way = await claim(rows.jobs, STEP)
    done = ended(under_way, finished_ms=7, duration_ms=3, result="x" * 100_000)
    after = await rows.jobs.finish(done, idle, KEEP, tells(item("r")))
    assert after == replace(due(job()).job, run_id="")
    assert await rows.jobs.get("j") == after
    assert await rows.jobs.runs("j", 5) == [done]
    [told] = await rows.deliveries.pending("ann", "s")
    assert replace(told, seq=0) == item("r")
    # Twice is once.
    assert await rows.jobs.finish(done, idle, KEEP, tells(item("again"))) is None
    assert len(await rows.deliveries.pending("ann", "s")) == 1


async def test_a_job_that_was_removed_stays_removed_and_delivers_nothing(rows: Rows) -> None:
    await add(rows.jobs, job())
    under_way = await claim(rows.jobs, STEP)
    await rows.jobs.change("j", "ann", lambda one: (None, None))
    done = ended(under_way, owed=True)
    assert await rows.jobs.finish(done, idle, KEEP, tells(item("r"))) is None
    assert await rows.jobs.get("j") is None
    assert await rows.jobs.runs("j", 5) == []
    assert await rows.jobs.list_owed() == []
    assert await rows.deliveries.pending("ann", "s") == []


async def test_a_job_that_ends_with_its_run_delivers(rows: Rows) -> None:
    await add(rows.jobs, job())
    under_way = await claim(rows.jobs, STEP)
    assert (
        await rows.jobs.finish(ended(under_way), lambda one: None, KEEP, tells(item("r"))) is None
    )
    assert await rows.jobs.listing(None) == []
    assert await rows.jobs.runs("j", 5) == []
    assert len(await rows.deliveries.pending("ann", "s")) == 1


async def test_an_end_that_fails_changes_nothing(rows: Rows) -> None:
    def fail(_: Job) -> Job:
        raise LookupError("a bug")

    await add(rows.jobs, job())
    under_way = await claim(rows.jobs, STEP)
    with pytest.raises(LookupError):
        await rows.jobs.finish(ended(under_way), fail, KEEP, tells(item("r")))
    assert await rows.jobs.runs("j", 5) == [under_way]
    assert await rows.deliveries.pending("ann", "s") == []
    assert await rows.jobs.finish(ended(under_way), idle, KEEP, tells(item("r"))) is not None


async def test_what_a_session_is_told_is_kept_with_the_end_that_it_tells_of(rows: Rows) -> None:
    def tell(before: Job, after: Job | None, run: Run) -> RunNews:
        assert (before.run_id, after) == (run.run_id, replace(before, run_id=""))
        return RunNews((replace(item(run.run_id), status="failed"),))

    await add(rows.jobs, job())
    await rows.jobs.finish(ended(await claim(rows.jobs, STEP)), idle, KEEP, tell)
    cut_off = await claim(rows.jobs, 9 * STEP)
    await abandon(rows)
    await rows.jobs.end_lapsed(LATEST, cut, tells(replace(item("cut"), status="failed")))
    found = await rows.deliveries.pending("ann", "s")
    assert [one.status for one in found] == ["failed", "failed"]
    assert cut_off.run_id != found[0].run_id


def event(key: str, kind: str = "run.finished") -> SessionEvent:
    return SessionEvent("ann", "s", kind, key, 1, b"{}")


async def keys_of_events(rows: Rows) -> list[str]:
    return [one.key for one in await rows.deliveries.events("ann", "s", 0, 100)]


async def test_an_event_is_kept_with_what_it_tells_of(rows: Rows) -> None:
    def late(one: Job) -> Claimed:
        missed = run(one, STEP, status="missed", missed=1)
        claimed = replace(one, due_ms=3 * STEP, next_run_ms=3 * STEP)
        return Claimed(claimed, (missed, run(one, 2 * STEP)), (), (event("missed"),))

    await add(rows.jobs, job())
    first = await claim_one(rows.jobs, 2 * STEP, "me", 1, late)
    assert first is not None
    assert await keys_of_events(rows) == ["missed"]
    done = ended(first.runs[1])
    await rows.jobs.finish(done, idle, KEEP, tells(events=(event("done"),)))
    # Whoever is late tells nothing.
    await rows.jobs.finish(done, idle, KEEP, tells(events=(event("late"),)))
    await claim(rows.jobs, 9 * STEP)
    await abandon(rows)
    await rows.jobs.end_lapsed(LATEST, cut, tells(events=(event("cut"), event("done"))))
    assert await keys_of_events(rows) == ["missed", "done", "cut"]


async def test_an_end_that_fails_tells_nothing(rows: Rows) -> None:
    def fail(before: Job, after: Job | None, run: Run) -> RunNews:
        raise LookupError("a bug")

    await add(rows.jobs, job())
    under_way = await claim(rows.jobs, STEP)
    with pytest.raises(LookupError):
        await rows.jobs.finish(ended(under_way), idle, KEEP, fail)
    assert await rows.jobs.runs("j", 5) == [under_way]
    assert await keys_of_events(rows) == []


async def test_several_are_claimed_together(jobs: JobRows) -> None:
    await add(jobs, *(job(name, next_run_ms=at) for name, at in (("a", 30), ("b", 10), ("c", 20))))
    assert await jobs.claim(100, "me", 1, due, 0) == []
    two = await jobs.claim(100, "me", 1, due, 2)
    assert [one.job.job_id for one in two] == ["b", "c"]
    assert [one.job.job_id for one in await jobs.claim(100, "me", 1, due, 9)] == ["a"]
    assert await jobs.claim(100, "me", 1, due, 9) == []


async def test_times_missed_before_anybody_read_of_them_are_one_item(rows: Rows) -> None:
    def missed(count: int) -> Callable[[Job], Claimed]:
        text = f"{count} times were missed"
        told = replace(item(f"m{count}"), at_ms=count, text=text, status="missed", missed=count)
        return lambda one: Claimed(replace(one, due_ms=None, next_run_ms=count), (), (told,))

    await add(rows.jobs, job())
    for count in (2, 3):
        await claim_one(rows.jobs, STEP, "me", 1, missed(count))
    [told] = await rows.deliveries.pending("ann", "s")
    assert (told.id, told.missed) == ("run:m3", 5)
    assert told.text == "5 runs were missed, the last at 1970-01-01T00:00:00.003Z."
    assert await rows.deliveries.deliver("ann", "s", (told.id,)) == (told.id,)
    await claim_one(rows.jobs, STEP, "me", 1, missed(4))
    [told] = await rows.deliveries.pending("ann", "s")
    assert told.missed == 4


async def test_a_run_that_is_given_back_leaves_no_row(jobs: JobRows) -> None:
    await add(jobs, job())
    under_way = await claim(jobs, STEP)
    before = await jobs.give_back(under_way.run_id, lambda one, run: replace(job(), name="back"))
    assert before == await jobs.get("j") == replace(job(), name="back")
    assert await jobs.runs("j", 9) == []
    assert await jobs.give_back(under_way.run_id, lambda one, run: one) is None
    assert (await claim(jobs, STEP)).due_ms == under_way.due_ms


async def test_what_is_owed_is_put_into_the_queue_instead(rows: Rows) -> None:
    await add(rows.jobs, job())
    done = ended(await claim(rows.jobs, STEP), owed=True)
    await rows.jobs.finish(done, idle, KEEP)
    assert await rows.jobs.settle_owed(done.run_id, item("r"))
    assert not await rows.jobs.settle_owed(done.run_id, item("again"))
    assert [one.run_id for one in await rows.deliveries.pending("ann", "s")] == ["r"]
    assert await rows.jobs.list_owed() == []


async def test_a_retry_of_an_instant_that_has_a_row_comes_right_after(jobs: JobRows) -> None:
    def again(one: Job) -> Claimed:
        assert one.retry_ms is not None
        run = Run(run_id=f"r-{one.retry_ms}", job_id="j", user_id="ann", due_ms=one.retry_ms)
        return Claimed(replace(one, retry_ms=None, next_run_ms=None, run_id=run.run_id), (run,))

    await add(jobs, replace(job(), retry_ms=5, next_run_ms=5))
    first = await claim_one(jobs, STEP, "me", 1, again)
    assert first is not None
    retried = lambda one: replace(one, run_id="", retry_ms=5, next_run_ms=5)  # noqa: E731
    await jobs.finish(ended(first.runs[0]), retried, KEEP)
    second = await claim_one(jobs, STEP, "me", 1, again)
    assert second is not None
    assert second.runs[0].due_ms == 6


async def test_the_last_runs_are_kept(jobs: JobRows) -> None:
    await add(jobs, job(), job("other"))
    other = await jobs.claim_now("other", None, "me", 1, due)
    for number in range(8):
        # The second is owed, and so is not among those that go.
        under_way = await jobs.claim_now("j", None, "me", 1, due)
        assert under_way is not None
        await jobs.finish(ended(under_way.runs[0], owed=number == 1), idle, 3)
    assert [one.due_ms // STEP for one in await jobs.runs("j", 10)] == [8, 7, 6, 2]
    assert [one.due_ms // STEP for one in await jobs.runs("j", 2)] == [8, 7]
    assert other is not None
    assert await jobs.runs("other", 9) == [other.runs[0]]
    await jobs.settle_owed(f"j-{2 * STEP}")
    under_way = await jobs.claim_now("j", None, "me", 1, due)
    assert under_way is not None
    await jobs.finish(ended(under_way.runs[0]), idle, 3)
    assert [one.due_ms // STEP for one in await jobs.runs("j", 10)] == [9, 8, 7]


async def test_what_is_owed_until_it_is_paid(jobs: JobRows) -> None:
    await add(jobs, job("a"), job("b"))
    for _ in range(2):
        await jobs.finish(ended(await claim(jobs, STEP), owed=True), idle, KEEP)
    assert [one.job_id for _, one in await jobs.list_owed()] == ["a", "b"]
    [(origin, result), _] = await jobs.list_owed()
    assert origin == await jobs.get("a")
    assert [result] == await jobs.runs("a", 9)
    await jobs.settle_owed(result.run_id)
    await jobs.settle_owed(result.run_id)
    assert [one.job_id for _, one in await jobs.list_owed()] == ["b"]
    assert await jobs.runs("a", 9) == [replace(result, owed=False)]


@pytest.mark.parametrize("way", ["paid", "forgotten"])
async def test_a_job_that_ended_with_its_run_still_owes(jobs: JobRows, way: str) -> None:
    await add(jobs, job())
    done = ended(await claim(jobs, STEP), owed=True)
    await jobs.finish(done, lambda one: None, KEEP)
    [(origin, result)] = await jobs.list_owed()
    assert (origin.job_id, result) == ("j", done)
    if way == "paid":
        await jobs.settle_owed(result.run_id)
    else:
        assert await jobs.forget("ann", "s") == 0
    assert await jobs.list_owed() == []


async def test_a_job_that_somebody_removes_owes_nothing(jobs: JobRows) -> None:
    await add(jobs, job())
    await jobs.finish(ended(await claim(jobs, STEP), owed=True), idle, KEEP)
    await jobs.change("j", None, lambda one: (None, None))
    assert await jobs.list_owed() == []


async def test_many_who_claim_at_once_get_each_job_once(jobs: JobRows) -> None:
    await add(jobs, *(job(str(number)) for number in range(40)))
    got: list[str] = []

    async def work() -> None:
        while (claimed := await claim_one(jobs, STEP, "me", 1, due)) is not None:
            got.append(claimed.runs[0].run_id)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(work)
    assert len(got) == len(set(got)) == 40


@pytest.mark.parametrize("name", DURABLE)
async def test_all_of_it_is_found_again(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        await add(rows.jobs, job("a"), job("b"))
        first = ended(await claim(rows.jobs, STEP), owed=True)
        await rows.jobs.finish(first, idle, KEEP, tells(item("r")))
        second = await claim(rows.jobs, STEP)
        before = await rows.jobs.listing(None)
    async with backend.opened() as rows:
        assert await rows.jobs.listing(None) == before
        assert await rows.jobs.runs("a", 5) == [first]
        assert [one for _, one in await rows.jobs.list_owed()] == [first]
        assert len(await rows.deliveries.pending("ann", "s")) == 1
        assert await rows.jobs.end_lapsed(LATEST, cut) == [replace(second, status="interrupted")]
