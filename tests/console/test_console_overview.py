"""The summary of the feed: what needs a look, of each kind, and whose is what comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

from gateway.app.console import ConsoleTopics
from gateway.clock import ManualClock
from gateway.console.feed import Viewer
from gateway.console.overview import (
    ComingEvent,
    Need,
    NeedKind,
    Overview,
    OverviewSources,
    SummaryView,
)
from gateway.console.topics import ALL
from gateway.jobs.service import DisabledScheduler
from gateway.reminders.view import NtpView
from tests.clock.holding import acting, held, remind, says
from tests.gateway.wire import chat
from tests.jobs.models import failing
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add,
    every,
    house,
    job_of,
    key,
    keys,
    ms_of,
    ran,
    run_now,
)
from tests.run import Running
from tests.sessions.talk import kept, model

EVERYBODY = Viewer("root", admin=True)
FULL = "The disk is full."
UNKNOWN_TIME = NtpView("error", 0, "", None, None, "No time server answered.")


async def find_full() -> str:
    return FULL


def read_sources(gate: Running) -> OverviewSources:
    """Return who knows what the summary of this gateway shows."""
    parts = gate.gateway.parts
    return ConsoleTopics(parts).make_overview_sources(parts.console.board)


async def read_summary(sources: OverviewSources) -> SummaryView:
    """Read the summary that an admin sees."""
    summary = (await Overview(sources, EVERYBODY).read())[ALL]
    assert isinstance(summary, SummaryView)
    return summary


def find_kind(needs: Iterable[Need], kind: NeedKind) -> Need:
    """Return the one need of a kind."""
    (found,) = [one for one in needs if one.kind == kind]
    return found


async def fail_often(gate: Running, name: str, times: int) -> str:
    """Make a job that has failed so often; return its id."""
    job = await add(gate, name=name, schedule=every(HOUR))
    for number in range(1, times + 1):
        await run_now(gate, job)
        await ran(gate, job, *["error"] * number)
    return job


class TestNeeds:
    async def test_each_kind_is_told_with_what_is_known_of_it(self, tmp_path: Path) -> None:
        settings = {**kept(tmp_path), "cron__max_consecutive_failures": 2}
        async with house(failing(), clock=ManualClock(NOW), settings=settings) as gate:
            off = await fail_often(gate, "gives up", 2)
            late = await add(gate, name="too late", schedule=every(HOUR))
        # It was away for three hours, and for longer than the times of jobs are waited for.
        later = ManualClock(NOW + 3 * HOUR + 40 * MINUTE)
        settings = {**settings, "cron__misfire_grace_ms": MINUTE}
        async with house(failing(), clock=later, settings=settings) as gate:
            await ran(gate, late, "missed")
            fails = await fail_often(gate, "fails", 1)
            sources = replace(
                read_sources(gate),
                trouble=find_full,
                ntp=lambda: UNKNOWN_TIME,
                scheduler=DisabledScheduler().status,
            )
            gate.gateway.exchanges.draining = True
            needs = (await read_summary(sources)).needs
            next_run = ms_of((await job_of(gate, fails))["next_run_at"])
        assert {one.kind for one in needs} == set(get_args(NeedKind))
        failing_job = find_kind(needs, "job_failing")
        assert (failing_job.id, failing_job.name, failing_job.count) == (fails, "fails", 1)
        assert (failing_job.at, failing_job.until) == (later.now_ms(), next_run)
        disabled = find_kind(needs, "job_disabled")
        assert (disabled.id, disabled.name, disabled.count) == (off, "gives up", 2)
        assert disabled.at == NOW
        missed = find_kind(needs, "missed")
        assert (missed.id, missed.name, missed.count) == (late, "too late", 3)
        cooling = find_kind(needs, "upstream_cooling")
        assert (cooling.id, cooling.name) == ("a", "a")
        assert cooling.until is not None
        assert 0 < cooling.until - later.now_ms() <= MINUTE
        assert find_kind(needs, "store").name == FULL
        assert find_kind(needs, "ntp").name == UNKNOWN_TIME.last_error

    async def test_where_all_is_well_there_is_none(self) -> None:
        async with house(model("fine"), clock=ManualClock(NOW)) as gate:
            job = await add(gate, schedule=every(HOUR))
            await run_now(gate, job)
            await ran(gate, job, "ok")
            assert (await read_summary(read_sources(gate))).needs == []


async def test_all_that_comes_is_somebodys() -> None:
    """An admin could not open the session of a reminder: its owner was not told."""
    tables = {"keys": keys("ann", "bob", "root", admin="root")}
    settings = {"clock__due_window_ms": 0}
    clock = ManualClock(NOW)
    async with house(acting(says("hi")), clock=clock, tables=tables, settings=settings) as gate:
        await remind(gate, 20 * MINUTE, "water the plants", "garden", key("ann"))
        await remind(gate, 20 * SECOND, "drink tea", "tea", key("bob"))
        await gate.start(chat("hi"), "x-session-id: tea", key("bob"))
        await held(gate)
        job = await add(gate, "what is new?", key("ann"))
        coming = (await read_summary(read_sources(gate))).coming
    found = {(one.kind, one.session, one.owner, one.name) for one in coming}
    assert {kind for kind, *_ in found} == {"reminder", "hold", "job"}
    # The texts of others stay theirs.
    assert ("reminder", "garden", "ann", "") in found
    assert ("reminder", "tea", "bob", "") in found
    assert ("hold", "tea", "bob", "tea") in found
    assert find_job(coming, job).owner == "ann"


def find_job(coming: Iterable[ComingEvent], job: str) -> ComingEvent:
    """Return the next run of a job."""
    (found,) = [one for one in coming if one.id == job]
    return found
