"""Any course of events: each time of a schedule is accounted for once, whatever happens.

The oracle counts the times of a schedule one by one. Those before `due_ms` are either done, as a
run or counted among the missed, or void, since somebody disabled the job when they were due.
"""

from __future__ import annotations

from itertools import count

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from msgspec import to_builtins
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import enable_job, make_job, patch_job, renew_job
from gateway.jobs.model import Draft, Job, JobRules, Patch, Run, Status
from gateway.jobs.run_rules import (
    BACK_OFF_MS,
    apply_end,
    claim_due,
    claim_manual,
    disable_job,
    finish_run,
    give_back_claim,
)
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, show_schedule

START = 1_770_067_358_229
MINUTE = 60_000
HORIZON = START + 30_000 * MINUTE
RULES = JobRules(misfire_grace_ms=5 * MINUTE, max_consecutive_failures=3)
CRONS = {"*/2 * * * *": 2, "0 * * * *": 60, "* * * * *": 1}
MINUTES = st.integers(1, 40).map(lambda n: n * MINUTE)
RARELY = st.sampled_from([False, False, False, True])
AHEAD = st.one_of(st.integers(0, 90_000), MINUTES)
LATE = st.one_of(AHEAD, st.integers(1, 400).map(lambda n: n * MINUTE))


# Schedules as they are asked for at a time that is not known yet.
WISHES = st.one_of(
    AHEAD.map(At),
    st.builds(Every, AHEAD.map(lambda ms: ms + MINUTE // 3), st.just(0)),
    st.builds(Every, MINUTES, AHEAD),
    st.sampled_from([Cron(expression, "UTC") for expression in CRONS]),
)


def asked(wish: Schedule, now_ms: int) -> Schedule:
    """What is wished for, from now on."""
    match wish:
        case At(ahead_ms):
            return At(now_ms + 1 + ahead_ms)
        case Every(every_ms, ahead_ms):
            return Every(every_ms, now_ms + ahead_ms)
        case Cron():
            return wish


def times(schedule: Schedule, after_ms: int, until_ms: int) -> list[int]:
    """The times after an instant, up to another, counted one by one."""
    match schedule:
        case At(at_ms):
            found = [at_ms]
        case Every(every_ms, anchor_ms):
            found = list(range(anchor_ms, until_ms + 1, every_ms))
        case Cron(expression):
            step = CRONS[expression] * MINUTE
            found = list(range(after_ms - after_ms % step, until_ms + 1, step))
    return [at for at in found if after_ms < at <= until_ms]


class EachTimeOnce(RuleBasedStateMachine):
    """A job, a clock that goes forward, and everybody who has a hand in it."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()
        self.now = START
        self.job: Job | None = None
        self.run: Run | None = None
        self.since = START
        self.done: set[int] = set()
        self.void: set[int] = set()
        self.ever: set[int] = set()

    def new_id(self) -> str:
        return f"r-{next(self.numbers)}"

    def kept(self) -> Job:
        assert self.job is not None
        return self.job

    def made(self, schedule: Schedule, on: bool, delete: bool) -> Job:
        draft = Draft(schedule=schedule, message="x", name="x", enabled=on, delete_after_run=delete)
        return make_job(draft, self.new_id(), "me", "s", "", self.now, RULES)

    def starts_anew(self) -> None:
        self.since, self.done, self.void = self.now, set(), set()

    def grid(self, until_ms: int) -> list[int]:
        return times(self.kept().schedule, self.since, until_ms)

    @rule(wish=WISHES, off=RARELY, delete=RARELY)
    @precondition(lambda self: self.job is None)
    def add(self, wish: Schedule, off: bool, delete: bool) -> None:
        self.job = self.made(asked(wish, self.now), not off, delete)
        self.run = None
        self.ever = set()
        self.starts_anew()

    @rule(ms=AHEAD)
    @precondition(lambda self: self.job is not None)
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule()
    @precondition(lambda self: self.is_waiting())
    def it_runs_on_time(self) -> None:
        self.now = max(self.now, self.kept().next_run_ms or 0)
        self.claim()

    @rule(late_ms=LATE)
    @precondition(lambda self: self.is_waiting())
    def it_is_looked_at_late(self, late_ms: int) -> None:
        self.now = max(self.now, self.kept().next_run_ms or 0) + late_ms
        self.claim()

    def claim(self) -> None:
        if self.kept().retry_ms is not None:
            self.claim_retry()
            return
        due = sorted(set(self.grid(self.now)) - self.done - self.void)
        self.job, runs = claim_due(self.kept(), self.now, RULES, self.new_id)
        timely = due[-1] >= self.now - RULES.misfire_grace_ms
        missed = len(due) > timely
        assert [run.status for run in runs] == ["missed"] * missed + ["running"] * timely
        for run in runs:
            assert run.trigger == "timer"
            self.account(run)
        self.run = runs[-1] if timely else None

    def claim_retry(self) -> None:
        """See that a retry is a row of its own, and no time of the schedule."""
        retry_ms, before = self.kept().retry_ms, self.kept()
        self.job, (run,) = claim_due(before, self.now, RULES, self.new_id)
        timely = self.now - (retry_ms or 0) <= RULES.misfire_grace_ms
        assert (run.due_ms, run.status) == (retry_ms, "running" if timely else "missed")
        assert self.job.due_ms is None
        self.run = run if timely else None

    @rule()
    @precondition(lambda self: self.run is not None and self.run.trigger == "timer")
    def it_is_given_back(self) -> None:
        assert self.run is not None
        self.job, run = give_back_claim(self.kept(), self.run), self.run
        self.run = None
        if self.job.due_ms is not None:
            self.done = {at for at in self.done if at < self.job.due_ms}
            self.ever -= {run.due_ms}

    def is_waiting(self) -> bool:
        return self.job is not None and self.run is None and self.job.next_run_ms is not None

    def account(self, run: Run) -> None:
        """Take a row for the times it stands for: as many as it counts, the last of them its own."""
        standing = self.grid(run.due_ms)[-max(run.missed, 1) :]
        assert standing[-1] == run.due_ms
        assert len(standing) == max(run.missed, 1)
        assert not (self.done | self.void) & set(standing)
        self.done |= set(standing)
        self.ever_accounted(set(standing))

    def ever_accounted(self, standing: set[int]) -> None:
        assert not self.ever & standing
        self.ever |= standing

    @rule()
    @precondition(lambda self: self.job and self.run is None)
    def run_by_hand(self) -> None:
        before = self.kept()
        self.job, (self.run,) = claim_manual(before, self.now, self.new_id)
        assert replace(self.job, run_id="", running_ms=None, run_due_ms=None) == before

    @rule(status=st.sampled_from(["ok", "error", "error", "error", "skipped", "interrupted"]))
    @precondition(lambda self: self.run is not None)
    def run_ends(self, status: Status) -> None:
        assert self.run is not None
        before, run = self.kept(), finish_run(self.run, self.now, status)
        self.job, self.run = apply_end(before, run, self.now, RULES), None
        if self.job is None:
            assert before.delete_after_run
            assert status == "ok"
            return
        assert self.job.due_ms == before.due_ms
        self.check_failures(before, self.job, status)

    def check_failures(self, before: Job, after: Job, status: Status) -> None:
        failures = before.consecutive_failures
        expected = {"ok": 0, "error": failures + 1}.get(status, failures)
        assert after.consecutive_failures == expected
        assert after.enabled <= before.enabled
        if not after.enabled or after.due_ms is None:
            assert after.retry_ms is None or status != "ok"
            return
        wait = 0
        if status == "error" and not isinstance(after.schedule, At):
            assert expected < RULES.max_consecutive_failures
            wait = self.now + BACK_OFF_MS[expected - 1]
        assert after.next_run_ms == max(after.due_ms, wait)

    @rule(on=st.booleans())
    @precondition(lambda self: self.job is not None)
    def switch(self, on: bool) -> None:
        before = self.kept()
        try:
            self.job = enable_job(before, self.now, RULES) if on else disable_job(before, self.now)
        except InvalidInput:
            self.check_refusal(before)
            return
        self.goes_on(before)
        assert self.job.enabled == on
        assert self.job.consecutive_failures == (0 if on else before.consecutive_failures)

    def check_refusal(self, job: Job) -> None:
        assert not job.enabled
        assert isinstance(job.schedule, At)
        assert job.schedule.at_ms <= self.now or job.due_ms is None

    def goes_on(self, before: Job) -> None:
        """Take for void what passed while it was disabled; of what is due, nothing is."""
        due_ms = self.kept().due_ms
        passed = self.grid(HORIZON if due_ms is None else due_ms - 1)
        void = set(passed) - self.done - self.void
        assert not (void and before.enabled)
        assert all(at <= self.now for at in void)
        self.void |= void

    @rule(on=st.none() | st.booleans(), sent_back=st.booleans())
    @precondition(lambda self: self.job is not None)
    def update(self, on: bool | None, sent_back: bool) -> None:
        before = self.kept()
        given = to_builtins(show_schedule(before.schedule)) if sent_back else {}
        patch = Patch(job_id=before.job_id, schedule=given, enabled=on, name="y")
        try:
            self.job = patch_job(before, patch, self.now, RULES)
        except InvalidInput:
            self.check_refusal(before)
            return
        self.goes_on(before)
        assert self.job.enabled == (before.enabled if on is None else on)

    @rule(wish=WISHES)
    @precondition(lambda self: self.job and self.now > self.since + 10 * MINUTE)
    def make_again(self, wish: Schedule) -> None:
        before = self.kept()
        schedule = asked(wish, self.now)
        wanted = self.made(schedule, before.enabled, before.delete_after_run)
        self.job = renew_job(before, wanted, self.now, RULES)
        assert self.job.job_id == before.job_id
        if self.job.schedule == before.schedule:
            self.goes_on(before)
        else:
            self.starts_anew()

    @invariant()
    def every_time_before_it_is_due_is_accounted_for_once(self) -> None:
        if self.job is None:
            return
        due_ms = self.job.due_ms
        before = self.grid(HORIZON if due_ms is None else due_ms - 1)
        assert set(before) == self.done | self.void
        assert not self.done & self.void
        assert due_ms is None or due_ms in times(self.job.schedule, due_ms - 1, due_ms)

    @invariant()
    def the_job_agrees_with_itself(self) -> None:
        job = self.job
        if job is None:
            return
        assert job.run_id == (self.run.run_id if self.run else "")
        assert (job.running_ms is None) == (self.run is None)
        assert job.run_due_ms == (None if self.run is None else self.run.due_ms)
        if not job.enabled:
            assert job.next_run_ms is None
        elif job.due_ms is None:
            assert job.run_id or job.retry_ms is not None
            assert job.next_run_ms == job.retry_ms
        else:
            assert job.next_run_ms is not None
            assert job.next_run_ms >= job.due_ms
            assert job.disabled_reason is None


class ThoughTheClockGoesBack(EachTimeOnce):
    """The same, with a clock that is set back now and then; a new schedule may then repeat."""

    @rule(ms=AHEAD)
    def is_set_back(self, ms: int) -> None:
        self.now -= ms

    def ever_accounted(self, standing: set[int]) -> None:
        pass


COURSES = settings(stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow])
TestEachTimeOnce = EachTimeOnce.TestCase
TestThoughTheClockGoesBack = ThoughTheClockGoesBack.TestCase
TestEachTimeOnce.settings = TestThoughTheClockGoesBack.settings = COURSES
