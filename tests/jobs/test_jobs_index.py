"""When the next run of a session begins, for whoever must not wait to know."""

from __future__ import annotations

import pytest
from anyio.lowlevel import checkpoint

from gateway.jobs.relay_sessions import JobIndex
from gateway.jobs.runner import Slots
from tests.jobs.words import HOUR, NOW, job


def test_the_earliest_counts() -> None:
    job_index = JobIndex()
    assert job_index.expecting("o", "s") is None
    for job_id, next_ms in (("a", NOW + HOUR), ("b", NOW), ("c", None)):
        job_index.put(job(job_id, next_ms))
    assert job_index.expecting("o", "s") == NOW
    assert job_index.expecting("o", "t") is None
    assert job_index.expecting("p", "s") is None
    job_index.drop("b")
    job_index.drop("unknown")
    assert job_index.expecting("o", "s") == NOW + HOUR
    assert repr(job_index) == "<JobIndex 2 jobs of 1 sessions>"


def test_a_run_that_is_under_way_began_in_the_past() -> None:
    job_index = JobIndex()
    job_index.put(job("a", NOW + HOUR, run_id="r", running_ms=NOW - 1))
    assert job_index.expecting("o", "s") == NOW - 1


def test_a_disabled_job_is_a_job() -> None:
    job_index = JobIndex()
    job_index.put(job("a", None))
    assert job_index.has_jobs("o", "s")
    assert job_index.expecting("o", "s") is None
    job_index.drop("a")
    assert not job_index.has_jobs("o", "s")


def test_agents_are_not_in_it() -> None:
    job_index = JobIndex()
    job_index.put(job("a", agent_id="helper"))
    assert len(job_index) == 0
    job_index.put(job("a"))
    job_index.put(job("a", agent_id="helper"))
    assert not job_index.has_jobs("o", "s")


def test_a_job_that_moves_is_where_it_went() -> None:
    job_index = JobIndex()
    job_index.put(job("a"))
    job_index.put(job("a", session_id="t"))
    assert not job_index.has_jobs("o", "s")
    assert job_index.has_jobs("o", "t")


def test_what_changed_while_the_jobs_were_listed_counts() -> None:
    job_index = JobIndex()
    listed = [job("a"), job("b", session_id="t"), job("c", session_id="u")]
    job_index.put(job("d", session_id="v"))
    job_index.drop("a")
    job_index.put(job("b", session_id="w"))
    job_index.load(listed)
    found = [name for name in "stuvw" if job_index.has_jobs("o", name)]
    assert found == ["u", "v", "w"]


def test_jobs_are_loaded_once() -> None:
    job_index = JobIndex()
    job_index.load([job("a")])
    job_index.drop("a")
    job_index.load([job("a")])
    assert not job_index.has_jobs("o", "s")


async def test_who_watches_hears_of_what_matters() -> None:
    job_index = JobIndex()
    heard: list[int] = []
    stop = job_index.watch("o", "s", lambda: heard.append(len(heard)))
    job_index.put(job("a"))
    job_index.put(job("a", name="other"))
    job_index.put(job("a", NOW + HOUR))
    job_index.put(job("b", session_id="t"))
    job_index.drop("a")
    await checkpoint()
    assert heard == [0, 1, 2]
    stop()
    job_index.put(job("a"))
    await checkpoint()
    assert heard == [0, 1, 2]


async def test_slots_are_taken_in_turn_and_given_back() -> None:
    freed: list[str] = []
    slots = Slots(1, lambda: freed.append("freed"))
    assert slots.acquire_now()
    assert not slots.acquire_now()
    assert repr(slots) == "<Slots 1 of 1 taken>"
    slots.release_unused()
    assert freed == []
    async with slots.hold_slot():
        assert slots.taken == 1
    assert (slots.taken, freed) == (0, ["freed"])


async def test_a_slot_is_given_back_whatever_happens() -> None:
    slots = Slots(1, lambda: None)
    with pytest.raises(ZeroDivisionError):
        async with slots.hold_slot():
            raise ZeroDivisionError
    assert slots.taken == 0
