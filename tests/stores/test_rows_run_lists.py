"""Lists of runs over jobs and owners; one contract for every backend."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.jobs.model import Job
from gateway.stores import Rows
from gateway.stores.job_content import encode_row
from gateway.stores.job_rows import JobRows, RunQuery
from gateway.stores.sqlite.database import migrate
from gateway.stores.sqlite.schema import MIGRATIONS

from .row_backends import (
    ALL,
    DURABLE,
    STEP,
    RowBackend,
    claim_one,
    due,
    ended,
    find_backend,
    idle,
    job,
    run,
    same,
)


@pytest.fixture(params=ALL)
async def rows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rows]:
    async with find_backend(request.param, tmp_path).opened() as opened:
        yield opened


@pytest.fixture
def jobs(rows: Rows) -> JobRows:
    return rows.jobs


async def run_all(jobs: JobRows, count: int, *given: Job) -> None:
    """Add jobs and run each of them some times, by turns."""
    for one in given:
        await jobs.add(one, same, 100)
    for _ in range(count * len(given)):
        claimed = await claim_one(jobs, 10**9, "me", 1, due)
        assert claimed is not None
        await jobs.finish(ended(claimed.runs[0]), idle, 100)


async def listed(jobs: JobRows, **query: object) -> list[str]:
    asked = RunQuery(**{"limit": 100, **query})  # type: ignore[arg-type]
    return [found.run_id for _, found in await jobs.list_runs(asked)]


async def test_runs_are_listed_over_all_jobs_of_an_owner(jobs: JobRows) -> None:
    await run_all(jobs, 2, job("a"), job("b", "bob"), job("c"))
    assert await listed(jobs, owner="ann") == ["c-2000", "a-2000", "c-1000", "a-1000"]
    assert await listed(jobs, owner="bob") == ["b-2000", "b-1000"]
    assert await listed(jobs, owner="eve") == []
    assert len(await listed(jobs)) == 6
    assert await listed(jobs, owner="ann", job_id="a") == ["a-2000", "a-1000"]
    assert await listed(jobs, owner="bob", job_id="a") == []


async def test_pages_of_runs_join_without_gap_or_double(jobs: JobRows) -> None:
    await run_all(jobs, 3, job("a"), job("b"))
    whole = await listed(jobs, owner="ann")
    found: list[str] = []
    before: int | None = None
    while page := await jobs.list_runs(RunQuery(owner="ann", before=before, limit=2)):
        found += [one.run_id for _, one in page]
        before = page[-1][0]
        # What comes meanwhile is newer, and changes no later page.
        claimed = await claim_one(jobs, 10**9, "me", 1, due)
        if claimed is not None:
            await jobs.finish(ended(claimed.runs[0]), idle, 100)
    assert found == whole


async def test_a_run_is_found_by_its_owner_only(jobs: JobRows) -> None:
    await run_all(jobs, 1, job("a"))
    found = await jobs.get_run("a-1000")
    assert found is not None
    assert found.status == "ok"
    assert await jobs.get_run("a-1000", "ann") == found
    assert await jobs.get_run("a-1000", "bob") is None
    assert await jobs.get_run("unknown", "ann") is None


async def test_the_newest_statuses_of_each_job_the_oldest_first(jobs: JobRows) -> None:
    await run_all(jobs, 3, job("a"), job("b"))
    await jobs.add(job("never", next_run_ms=None, due_ms=None), same, 100)
    claimed = await claim_one(jobs, 10**9, "me", 1, due)
    assert claimed is not None
    name = claimed.job.job_id
    found = await jobs.last_statuses(["a", "b", "never", "unknown"], 2)
    assert found == {"a": ("ok", "ok"), "b": ("ok", "ok"), name: ("ok", "running")}
    assert await jobs.last_statuses([], 2) == {}


@pytest.mark.parametrize("name", [one for one in DURABLE if one != "shared"])
async def test_runs_of_an_earlier_schema_get_their_owners(name: str, tmp_path: Path) -> None:
    backend = RowBackend(name, tmp_path)
    backend.path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(backend.path, isolation_level=None)
    migrate(connection, MIGRATIONS[:4])
    one, orphan = job("a"), job("gone")
    connection.execute(
        "INSERT INTO jobs (owner, session, agent, dedupe_key, next_run_ms, job, job_id)"
        " VALUES ('ann', 's', '', '', 1000, ?, 'a')",
        (encode_row(one),),
    )
    for kept in (ended(run(one, STEP)), ended(run(orphan, STEP))):
        connection.execute(
            "INSERT INTO runs (job_id, due_ms, manual, status, holder, lease_ms, run, run_id)"
            " VALUES (?, 1000, 0, 'ok', '', 0, ?, ?)",
            (kept.job_id, encode_row(kept), kept.run_id),
        )
    connection.close()
    async with backend.opened() as rows:
        assert await listed(rows.jobs, owner="ann") == ["a-1000"]
