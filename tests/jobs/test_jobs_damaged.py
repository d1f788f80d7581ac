"""A jobs database that is damaged: jobs are refused with a reason, and all else goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.clock import ManualClock
from gateway.stores.disk import PROBE_FILE, ROWS_FILE
from tests.clock.reminding import listed, remind
from tests.gateway.wire import get
from tests.jobs.words import (
    HOUR,
    NOW,
    add,
    ask,
    at,
    cron,
    every,
    house,
    ran,
    refused,
    run_now,
    seen,
)
from tests.run import Running
from tests.sessions.talk import kept, model
from tests.stores.mounts import small_disk

GARBAGE = b"by far not a database " * 1000


def overwrite(path: Path) -> None:
    path.write_bytes(GARBAGE)


def cut_off(path: Path) -> None:
    """Leave the first page, and lose those with the tables."""
    path.write_bytes(path.read_bytes()[:4096])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def in_the_way(path: Path) -> None:
    """Make it something that cannot be opened, by whomever."""
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "garbage": (overwrite, "not a database"),
    "pages are missing": (cut_off, "damaged"),
    "empty, beside what speaks of jobs": (empty, "empty, but it had content before"),
    "cannot be opened": (in_the_way, ""),
}


async def status_of(gate: Running) -> tuple[int, str, str]:
    """Look whether the gateway is ready."""
    answer = await gate.fetch(get("/readyz"))
    return answer.status, answer.json["status"], answer.json.get("reason", "")


async def all_else_goes_on(gate: Running, reason: str) -> None:
    """See that models answer and reminders are kept, while jobs are refused with a reason."""
    assert (await gate.ask(None, "x-session-id: s")).status == 200
    task_id = await remind(gate, "drink tea", NOW + HOUR)
    assert [task["taskId"] for task in (await listed(gate))["items"]] == [task_id]
    for action in ("list", "status"):
        status, code, message = refused(await ask(gate, action))
        assert (status, code) == (503, "store_unavailable")
        assert reason in message
    job = {"schedule": at(NOW + HOUR), "message": "x", "session_id": "s"}
    assert refused(await ask(gate, "add", job))[0] == 503
    status, state, why = await status_of(gate)
    assert (status, state) == (200, "degraded")
    assert reason in why


def rows_of(place: Path) -> Path:
    """Find the file, and let nothing of it be left in files beside it."""
    path = next(place.rglob(ROWS_FILE))
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("damage, reason", DAMAGES.values(), ids=DAMAGES)
async def test_a_database_that_is_damaged_at_the_start(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        await add(gate, agent="", schedule=every(HOUR))
        assert await status_of(gate) == (200, "ready", "")
    path = rows_of(tmp_path)
    whole = path.read_bytes()
    damage(path)
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        await all_else_goes_on(gate, reason)
        if path.is_dir():
            path.rmdir()
        else:
            # Nothing is written to what may still be mended.
            assert path.read_bytes() in (GARBAGE, whole[:4096], b"")
        path.with_name("restored").write_bytes(whole)
        path.with_name("restored").rename(path)
        await seen(lambda: ask(gate, "list"), lambda answer: answer.status == 200)
        assert len((await cron(gate, "list"))["jobs"]) == 1
        await seen(lambda: status_of(gate), lambda found: found == (200, "ready", ""))


@pytest.mark.parametrize("damage", [overwrite, empty])
async def test_a_database_that_is_damaged_while_it_is_used(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """What is in memory may still be shown, but never that there are no jobs."""
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        await add(gate, agent="", schedule=every(HOUR))
        damage(rows_of(tmp_path))
        for _ in range(5):
            answer = await ask(gate, "list")
            assert answer.status == 503 or len(answer.json["data"]["jobs"]) == 1
            assert (await gate.ask(None, "x-session-id: s")).status == 200
            assert (await gate.fetch(get("/readyz"))).status == 200
        await remind(gate, "drink tea", NOW + HOUR)


async def test_an_empty_file_that_nothing_speaks_of_is_a_new_database(tmp_path: Path) -> None:
    settings = kept(tmp_path)
    async with house(model(), clock=ManualClock(NOW), settings=settings) as gate:
        assert (await cron(gate, "list"))["jobs"] == []
    (place,) = {path.parent for path in tmp_path.rglob(".lock")}
    place.joinpath(ROWS_FILE).write_bytes(b"")
    async with house(model("done"), clock=ManualClock(NOW), settings=settings) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")


async def test_a_full_disk_is_noticed_before_anybody_writes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        async with house(model(), settings=kept(disk.place)) as gate:
            assert await status_of(gate) == (200, "ready", "")
            disk.fill()
            status, _, why = await seen(
                lambda: status_of(gate), lambda found: found[1] == "degraded"
            )
            assert (status, why.endswith("the disk is full.")) == (200, True)
            assert (await gate.ask(None, "x-session-id: s")).status == 200
            disk.free()
            await seen(lambda: status_of(gate), lambda found: found[1] == "ready")
            assert not list(disk.place.rglob(PROBE_FILE))
