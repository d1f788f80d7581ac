"""Lists of jobs: states, filters, orders and pages."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.jobs.listing import (
    BAD_CURSOR,
    HAS_STATE,
    SORT_VALUES,
    JobOrder,
    JobQuery,
    JobState,
    JobTotals,
    find_jobs,
    find_state,
)
from gateway.jobs.model import Job
from gateway.jobs.schedule.model import Every

HOUR = 3_600_000


def job(job_id: str = "a", **fields: object) -> Job:
    made = Job(
        job_id=job_id,
        user_id="ann",
        session_id="s",
        name=job_id,
        schedule=Every(HOUR, 0),
        message="Go on.",
        next_run_ms=HOUR,
    )
    return replace(made, **fields)


@pytest.mark.parametrize(
    "fields, state",
    [
        ({}, "on"),
        ({"consecutive_failures": 1}, "failing"),
        ({"run_id": "r"}, "running"),
        ({"run_id": "r", "consecutive_failures": 2}, "running"),
        ({"run_id": "r", "enabled": False}, "running"),
        ({"enabled": False}, "off"),
        ({"enabled": False, "consecutive_failures": 5}, "off"),
    ],
)
def test_the_state_that_is_shown(fields: dict[str, Any], state: JobState) -> None:
    assert find_state(job(**fields)) == state


JOBS = st.lists(
    st.builds(
        job,
        st.text("abcdef", min_size=3, max_size=8),
        name=st.sampled_from(["Tea", "tea", "Äpfel", "disk", ""]),
        enabled=st.booleans(),
        consecutive_failures=st.integers(0, 2),
        run_id=st.sampled_from(["", "r"]),
        next_run_ms=st.one_of(st.none(), st.integers(0, 3)),
        last_run_ms=st.one_of(st.none(), st.integers(0, 3)),
        created_ms=st.integers(0, 3),
    ),
    max_size=12,
    unique_by=lambda one: one.job_id,
)
ORDERS = st.builds(JobOrder, st.sampled_from(sorted(SORT_VALUES)), st.booleans())
STATES = st.one_of(st.none(), st.sampled_from(sorted(HAS_STATE)))
QUERIES = st.builds(JobQuery, order=ORDERS, state=STATES, text=st.sampled_from(["", "TEA", "a"]))


@given(JOBS, QUERIES, st.integers(1, 5))
def test_pages_join_to_the_whole_list(jobs: list[Job], query: JobQuery, limit: int) -> None:
    whole = find_jobs(jobs, query)
    assert whole.next is None
    found, after = list[Job](), ""
    while True:
        page = find_jobs(jobs, replace(query, limit=limit, after=after))
        assert page.totals == whole.totals
        found += page.jobs
        if page.next is None:
            break
        assert len(page.jobs) == limit
        after = page.next
    assert found == whole.jobs


@given(JOBS, QUERIES, st.integers(1, 5), st.data())
def test_what_comes_or_goes_disturbs_no_other(
    jobs: list[Job], query: JobQuery, limit: int, data: st.DataObject
) -> None:
    whole = find_jobs(jobs, query).jobs
    first = find_jobs(jobs, replace(query, limit=limit))
    if first.next is None:
        return
    gone = data.draw(st.sampled_from(jobs))
    left = [one for one in jobs if one is not gone] + [job("zzz", name="tea")]
    rest = find_jobs(left, replace(query, after=first.next)).jobs
    expected = [one for one in whole[limit:] if one is not gone]
    assert [one for one in rest if one.job_id != "zzz"] == expected


@given(JOBS, ORDERS)
def test_those_without_a_value_come_last(jobs: list[Job], order: JobOrder) -> None:
    found = find_jobs(jobs, JobQuery(order=order)).jobs
    values = [SORT_VALUES[order.name](one) for one in found]
    there = [value for value in values if value is not None]
    assert values == there + [None] * (len(values) - len(there))
    assert there == sorted(there, reverse=order.is_reversed)


@given(JOBS)
def test_totals_are_what_the_filters_show(jobs: list[Job]) -> None:
    totals = find_jobs(jobs, JobQuery()).totals
    shown = [len(find_jobs(jobs, JobQuery(state=state)).jobs) for state in HAS_STATE]
    assert totals == JobTotals(len(jobs), *shown)
    assert totals.on + totals.off == totals.all


def test_without_anything_asked_the_order_of_the_store_stays() -> None:
    jobs = [job("b", created_ms=9), job("a", created_ms=1)]
    assert find_jobs(jobs, JobQuery()).jobs == jobs
    assert [one.job_id for one in find_jobs(jobs, JobQuery(limit=2)).jobs] == ["a", "b"]


@pytest.mark.parametrize(
    "text, found",
    [
        ("", True),
        ("TEA", True),
        ("go ON", True),
        ("s", True),
        ("ann", True),
        ("job_1", True),
        ("job_", False),
        ("x!", False),
    ],
)
def test_where_a_text_is_looked_for(text: str, found: bool) -> None:
    one = job("job_1", name="Tea", agent_id="helper")
    assert find_jobs([one], JobQuery(text=text)).jobs == ([one] if found else [])


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "****",
        urlsafe_b64encode(b"[1,2,3]").decode(),
        urlsafe_b64encode(b'[false,"x","a"]').decode(),
    ],
)
def test_a_cursor_that_is_none(cursor: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        find_jobs([job()], JobQuery(limit=1, after=cursor))
    assert str(refused.value) == BAD_CURSOR


def test_a_cursor_of_another_order() -> None:
    jobs = [job("a"), job("b")]
    cursor = find_jobs(jobs, JobQuery(limit=1)).next
    assert cursor is not None
    with pytest.raises(InvalidInput):
        find_jobs(jobs, JobQuery(order=JobOrder("name"), limit=1, after=cursor))
