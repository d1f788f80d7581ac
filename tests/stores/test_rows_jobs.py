"""Jobs: one contract for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from gateway.errors import TooMany
from gateway.jobs.model import Job
from gateway.jobs.schedule.model import At, Cron
from gateway.stores import Conflict, Rows
from gateway.stores.job_rows import JobRows

from .row_backends import ALL, NAMES, RowBackend, claim_one, due, find_backend, job, same


@pytest.fixture(params=ALL)
async def rows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rows]:
    async with find_backend(request.param, tmp_path).opened() as opened:
        yield opened


@pytest.fixture
def jobs(rows: Rows) -> JobRows:
    return rows.jobs


async def kept(jobs: JobRows, *given: Job) -> None:
    for one in given:
        assert await jobs.add(one, same, 100) == (one, False)


async def ids(jobs: JobRows, *wanted: str | None) -> list[str]:
    return [one.job_id for one in await jobs.listing(*wanted)]


async def test_where_nothing_is_kept(jobs: JobRows) -> None:
    assert await jobs.get("j") is None
    assert await jobs.listing(None) == []
    assert await jobs.change("j", None, lambda one: (one, 1)) is None
    assert await jobs.next_run_ms() is None
    assert await claim_one(jobs, 9_999, "me", 1, due) is None
    assert await jobs.claim_now("j", "ann", "me", 1, due) is None
    assert not await jobs.extend("r", "me", 1)
    assert await jobs.end_lapsed(2**63 - 1, lambda one, run: (one, run)) == []
    assert await jobs.runs("j", 10) == []
    assert await jobs.list_owed() == []
    await jobs.settle_owed("r")
    assert await jobs.forget("ann", "s") == 0


@pytest.mark.parametrize(
    "given",
    [
        job(),
        job(schedule=At(5_000, "Asia/Shanghai"), session_mode="isolated", delete_after_run=True),
        job(schedule=Cron("0 9 * * 1-5", "Europe/London"), agent_id="agent", model="m"),
        job(enabled=False, due_ms=None, next_run_ms=None, disabled_reason="Tired."),
        job("a b/ç🦆", "o'wner", message="'; DROP TABLE jobs; --\n🦆", dedupe_key='"'),
        job(last_status="error", last_error="No.", consecutive_failures=3, running_ms=4),
    ],
    ids=lambda given: given.name,
)
async def test_a_job_is_returned_as_it_was_kept(jobs: JobRows, given: Job) -> None:
    await kept(jobs, given)
    assert await jobs.get(given.job_id) == given
    assert await jobs.get(given.job_id, given.user_id) == given
    assert await jobs.listing(None) == [given]


@pytest.mark.parametrize("name", NAMES)
async def test_an_id_may_have_any_character_in_a_store_of_one_process(
    tmp_path: Path, name: str
) -> None:
    async with RowBackend(name, tmp_path).opened() as opened:
        given = job("a\0b", "o\0wner")
        await kept(opened.jobs, given)
        assert await opened.jobs.get("a\0b", "o\0wner") == given


async def test_somebody_elses_job_is_as_if_it_were_not_there(jobs: JobRows) -> None:
    await kept(jobs, job("j", "ann"))
    assert await jobs.get("j", "bob") is None
    assert await jobs.change("j", "bob", lambda one: (None, 1)) is None
    assert await jobs.claim_now("j", "bob", "me", 1, due) is None
    assert await jobs.forget("bob", "s") == 0
    assert await ids(jobs, "bob") == []
    assert await jobs.get("j", "ann") == job("j", "ann")


async def test_lists_the_oldest_first(jobs: JobRows) -> None:
    await kept(
        jobs,
        job("c", "ann"),
        job("b", "bob"),
        job("a", "ann", session_id="t"),
        job("d", "ann", session_id="t", agent_id="agent"),
    )
    assert await ids(jobs, None) == ["c", "b", "a", "d"]
    assert await ids(jobs, "ann") == ["c", "a", "d"]
    assert await ids(jobs, "ann", "t") == ["a", "d"]
    assert await ids(jobs, "ann", "t", "agent") == ["d"]
    assert await ids(jobs, "ann", None, "") == ["c", "a"]
    assert await ids(jobs, None, None, "agent") == ["d"]


async def test_a_taken_id(jobs: JobRows) -> None:
    await kept(jobs, job("j", "ann"))
    for owner in ("ann", "bob"):
        with pytest.raises(Conflict):
            await jobs.add(job("j", owner), same, 100)
    assert await jobs.listing(None) == [job("j", "ann")]


async def test_an_owner_has_so_many_at_most(jobs: JobRows) -> None:
    await kept(jobs, job("a"), job("b", dedupe_key="key"), job("c", "bob"))
    with pytest.raises(TooMany, match="There are 2 jobs already"):
        await jobs.add(job("d"), same, 2)
    # One that is there already is not one more.
    assert await jobs.add(job("d", dedupe_key="key"), same, 2) == (job("b", dedupe_key="key"), True)
    await kept(jobs, job("e", "bob"))


async def test_a_dedupe_key_that_is_known(jobs: JobRows) -> None:
    first = job("a", dedupe_key="key", message="Old.")
    await kept(jobs, first)
    again, was_known = await jobs.add(
        job("b", dedupe_key="key"), lambda one: replace(one, message="New.", next_run_ms=7), 100
    )
    assert was_known
    assert again == replace(first, message="New.", next_run_ms=7)
    assert await jobs.listing(None) == [again]
    assert await jobs.next_run_ms() == 7
    # It is unique for an owner, and no key is no key.
    await kept(jobs, job("c", "bob", dedupe_key="key"), job("d"), job("e"))


async def test_an_answer_that_is_refused_changes_nothing(jobs: JobRows) -> None:
    def refuse(_: Job) -> Job:
        raise LookupError("unfit")

    await kept(jobs, job("a", dedupe_key="key"))
    with pytest.raises(LookupError, match="unfit"):
        await jobs.add(job("b", dedupe_key="key"), refuse, 100)
    with pytest.raises(LookupError, match="unfit"):
        await jobs.change("a", "ann", lambda one: (refuse(one), None))
    assert await jobs.listing(None) == [job("a", dedupe_key="key")]


async def test_a_change(jobs: JobRows) -> None:
    await kept(jobs, job("a"), job("b"))
    changed = job("a", session_id="t", agent_id="x", dedupe_key="key", next_run_ms=None)
    assert await jobs.change("a", "ann", lambda one: (changed, one.name)) == "a"
    assert await jobs.listing("ann", "t", "x") == [changed]
    assert await jobs.next_run_ms() == job("b").next_run_ms
    assert await jobs.change("a", None, lambda one: (one, "same")) == "same"
    assert await jobs.change("a", "ann", lambda one: (None, "gone")) == "gone"
    assert await ids(jobs, None) == ["b"]


async def test_a_change_to_anothers_dedupe_key(jobs: JobRows) -> None:
    await kept(jobs, job("a", dedupe_key="key"), job("b"))
    with pytest.raises(Conflict):
        await jobs.change("b", "ann", lambda one: (replace(one, dedupe_key="key"), None))
    assert await jobs.get("b") == job("b")
    assert await jobs.change("a", None, lambda one: (replace(one, message="New."), 1)) == 1
    assert await jobs.change("a", None, lambda one: (None, 2)) == 2
    assert await jobs.change("b", None, lambda one: (replace(one, dedupe_key="key"), 3)) == 3


async def test_the_next_time(jobs: JobRows) -> None:
    await kept(
        jobs, job("a", next_run_ms=5_000), job("b", next_run_ms=3_000), job("c", next_run_ms=None)
    )
    assert await jobs.next_run_ms() == 3_000
    assert await jobs.claim_now("b", None, "me", 1, due)
    assert await jobs.next_run_ms() == 5_000


async def test_a_session_is_forgotten_with_its_jobs(jobs: JobRows) -> None:
    await kept(jobs, job("a"), job("b"), job("c", session_id="t"), job("d", "bob"))
    assert await jobs.claim_now("a", None, "me", 1, due)
    assert await jobs.forget("ann", "s") == 2
    assert await ids(jobs, None) == ["c", "d"]
    assert await jobs.runs("a", 10) == []


async def test_adds_that_come_together_make_one_job(jobs: JobRows) -> None:
    kept_as: list[tuple[str, bool]] = []

    async def add(number: int) -> None:
        one, was_known = await jobs.add(job(str(number), dedupe_key="key"), same, 100)
        kept_as.append((one.job_id, was_known))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(add, number)
    [only] = await jobs.listing(None)
    assert {job_id for job_id, _ in kept_as} == {only.job_id}
    assert [was_known for _, was_known in kept_as].count(False) == 1


async def test_no_more_than_so_many_when_they_come_together(jobs: JobRows) -> None:
    outcomes: list[bool] = []

    async def add(number: int) -> None:
        try:
            await jobs.add(job(str(number)), same, 10)
            outcomes.append(True)
        except TooMany:
            outcomes.append(False)

    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(add, number)
    assert outcomes.count(True) == len(await jobs.listing(None)) == 10
