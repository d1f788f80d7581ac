"""What becomes of a job by somebody's hand: made, changed, made again, enabled, disabled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import enable_job, make_job, patch_job, renew_job
from gateway.jobs.model import Job, JobRules
from gateway.jobs.reader import read_draft, read_patch
from gateway.jobs.run_rules import disable_job
from gateway.jobs.schedule.model import At, Cron, Every
from gateway.jobs.view import show_job

NOW = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z, a Monday
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
RULES = JobRules()
HOURLY = {"kind": "every", "every_ms": HOUR}
MORNINGS = {"kind": "cron", "cron": "0 8 * * *", "tz": "Asia/Shanghai"}
TOMORROW = {"kind": "at", "at": "2026-02-03T21:22:38.229Z"}


def made(schedule: dict[str, Any] = HOURLY, now_ms: int = NOW, **members: Any) -> Job:
    given = {"schedule": schedule, "message": "Look at the mail.", **members}
    draft = read_draft(given, now_ms, RULES)
    return make_job(draft, "j-1", "me", "s-1", "post", now_ms, RULES)


def changed(job: Job, now_ms: int = NOW, **members: Any) -> Job:
    return patch_job(job, read_patch({"job_id": job.job_id, **members}), now_ms, RULES)


def differences(before: Job, after: Job) -> dict[str, object]:
    return {
        name: getattr(after, name)
        for name in Job.__struct_fields__
        if getattr(after, name) != getattr(before, name)
    }


def refusal(do: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as invalid:
        do()
    return str(invalid.value)


# Made


def test_a_job_is_made() -> None:
    assert made() == Job(
        job_id="j-1",
        user_id="me",
        session_id="s-1",
        agent_id="post",
        name="Look at the mail.",
        schedule=Every(HOUR, anchor_ms=NOW),
        message="Look at the mail.",
        due_ms=NOW + HOUR,
        next_run_ms=NOW + HOUR,
        created_ms=NOW,
        updated_ms=NOW,
    )


def test_all_that_was_asked_for_is_in_it() -> None:
    job = made(
        name="mail",
        session="isolated",
        delete_after_run=True,
        dedupe_key="mail",
        model="fast",
        job_id="mine",
        session_id="elsewhere",
    )
    assert (job.name, job.session_mode, job.delete_after_run) == ("mail", "isolated", True)
    assert (job.dedupe_key, job.model) == ("mail", "fast")
    assert (job.job_id, job.session_id) == ("j-1", "s-1")


def test_a_job_that_is_made_disabled_waits_for_nothing() -> None:
    job = made(enabled=False)
    assert (job.enabled, job.next_run_ms, job.disabled_reason) == (False, None, None)
    assert enable_job(job, NOW, RULES) == made()


@pytest.mark.parametrize(
    "schedule, due_ms",
    [
        (TOMORROW, NOW + DAY),
        ({"kind": "at", "at": NOW + 1}, NOW + 1),
        (HOURLY, NOW + HOUR),
        ({**HOURLY, "at": NOW - 1}, NOW - 1 + HOUR),
        ({**HOURLY, "at": NOW}, NOW + HOUR),
        ({**HOURLY, "at": NOW + MINUTE}, NOW + MINUTE),
        (MORNINGS, 1_770_076_800_000),
    ],
)
def test_when_it_is_due_first(schedule: dict[str, Any], due_ms: int) -> None:
    job = made(schedule)
    assert (job.due_ms, job.next_run_ms) == (due_ms, due_ms)


def test_a_job_that_would_never_be_due_is_not_made() -> None:
    draft = read_draft({"schedule": TOMORROW, "message": "x"}, NOW, RULES)
    sentence = refusal(lambda: make_job(draft, "j-1", "me", "s-1", "", NOW + DAY, RULES))
    assert (
        sentence
        == "schedule.at is in the past, 2026-02-03T21:22:38.229Z; set a later time with update."
    )
    leap = read_draft(
        {"schedule": {"kind": "cron", "cron": "0 0 29 2 *"}, "message": "x"}, NOW, RULES
    )
    soon = JobRules(cron_lookahead_days=30)
    sentence = refusal(lambda: make_job(leap, "j-1", "me", "s-1", "", NOW, soon))
    assert sentence == "schedule has no further run time; set another schedule."


# Changed


def test_an_update_without_anything_changes_nothing() -> None:
    assert differences(made(), changed(made(), NOW + 1)) == {"updated_ms": NOW + 1}


@pytest.mark.parametrize(
    "members, differ",
    [
        ({"message": "Write."}, {"message": "Write."}),
        ({"payload": {"message": "Write."}}, {"message": "Write."}),
        ({"name": "mail"}, {"name": "mail"}),
        ({"session": "isolated"}, {"session_mode": "isolated"}),
        ({"delete_after_run": True}, {"delete_after_run": True}),
        ({"dedupe_key": "mail"}, {"dedupe_key": "mail"}),
        ({"model": "fast"}, {"model": "fast"}),
        ({"name": "", "message": "Write."}, {"name": "Write.", "message": "Write."}),
        ({"session_id": "s-1", "agent_id": "post"}, {}),
        ({"enabled": False}, {"enabled": False, "next_run_ms": None}),
        ({"enabled": True}, {}),
    ],
)
def test_only_what_is_named_changes(members: dict[str, Any], differ: dict[str, object]) -> None:
    after = changed(made(), NOW + 1, **members)
    assert differences(made(), after) == {**differ, "updated_ms": NOW + 1}


def test_what_was_given_can_be_taken_back() -> None:
    job = made(name="mail", session="isolated", delete_after_run=True, dedupe_key="m", model="f")
    plain = changed(
        job, name="", session="main", delete_after_run=False, dedupe_key="", model="", enabled=True
    )
    assert plain == made()


@pytest.mark.parametrize("name", ["session_id", "agent_id"])
def test_a_job_stays_where_it_is(name: str) -> None:
    sentence = f"{name} of a job cannot be changed; add a new job instead."
    for value in ("other", ""):
        moved: dict[str, Any] = {name: value}
        assert refusal(partial(changed, made(), **moved)) == sentence


def test_the_past_of_a_job_is_kept() -> None:
    job = replace(
        made(), last_run_ms=NOW, last_status="error", last_error="No.", consecutive_failures=2
    )
    after = changed(job, NOW + 1, message="x", schedule={"every_ms": MINUTE})
    assert differences(job, after).keys() == {
        "message",
        "schedule",
        "due_ms",
        "next_run_ms",
        "updated_ms",
    }


# Rescheduled


@pytest.mark.parametrize(
    "schedule, given, becomes",
    [
        (HOURLY, {"schedule": {"every_ms": MINUTE}}, Every(MINUTE, NOW)),
        (HOURLY, {"schedule": {"kind": "every", "every_ms": MINUTE}}, Every(MINUTE, NOW)),
        (HOURLY, {"schedule": {"at": NOW + 5}}, Every(HOUR, NOW + 5)),
        (HOURLY, {"schedule_text": "every 2 minutes"}, Every(2 * MINUTE, NOW + DAY)),
        (HOURLY, {"schedule": MORNINGS}, Cron("0 8 * * *", "Asia/Shanghai")),
        (MORNINGS, {"schedule": {"cron": "0 9 * * *"}}, Cron("0 9 * * *", "Asia/Shanghai")),
        (MORNINGS, {"schedule": {"tz": "UTC"}}, Cron("0 8 * * *", "UTC")),
        (MORNINGS, {"schedule": {**MORNINGS, "tz": None}}, Cron("0 8 * * *", "Asia/Shanghai")),
        (MORNINGS, {"schedule": HOURLY}, Every(HOUR, NOW + DAY)),
        (MORNINGS, {"schedule_text": "daily at 9am"}, Cron("0 9 * * *", "Asia/Shanghai")),
        (
            MORNINGS,
            {"schedule_text": "daily at 9am", "schedule": {"tz": "UTC"}},
            Cron("0 9 * * *", "UTC"),
        ),
        (
            MORNINGS,
            {"schedule_text": "daily at 9am", "schedule": {"cron": "0 7 * * *"}},
            Cron("0 7 * * *", "Asia/Shanghai"),
        ),
        (
            MORNINGS,
            {"schedule": {"kind": "at", "at": "2026-02-05T08:00:00"}},
            At(1_770_249_600_000, "Asia/Shanghai"),
        ),
    ],
)
def test_what_a_new_schedule_leaves_out(
    schedule: dict[str, Any], given: dict[str, Any], becomes: object
) -> None:
    job = changed(made(schedule), NOW + DAY, **given)
    assert job.schedule == becomes
    assert job.due_ms == job.next_run_ms
    assert job.due_ms is not None
    assert job.due_ms > NOW + DAY or job.schedule == made(schedule).schedule


def test_a_member_of_another_kind_is_not_passed_over() -> None:
    bare = refusal(lambda: changed(made(), schedule={"cron": "0 9 * * *"}))
    assert bare == "schedule.kind is missing; use at, every or cron."
    mixed = refusal(lambda: changed(made(), schedule={"kind": "every", "cron": "0 9 * * *"}))
    assert mixed.startswith("schedule.cron means nothing when schedule.kind is every;")


def test_a_schedule_that_cannot_be_is_refused() -> None:
    assert "schedule" in refusal(lambda: changed(made(), schedule={"every_ms": 1}))
    assert "schedule" in refusal(lambda: changed(made(), schedule={"evry": 1}))


@pytest.mark.parametrize("schedule", [HOURLY, MORNINGS, TOMORROW])
def test_a_job_sent_back_as_it_was_shown_is_the_same(schedule: dict[str, Any]) -> None:
    job = made(schedule)
    late = NOW + 30 * DAY
    assert differences(job, changed(job, late, **to_builtins(show_job(job)))) == {
        "updated_ms": late
    }


@pytest.mark.parametrize("given", [{"schedule": HOURLY}, {"schedule_text": "every hour"}])
def test_the_same_interval_again_does_not_shift_the_grid(given: dict[str, Any]) -> None:
    assert differences(made(), changed(made(), NOW + MINUTE, **given)) == {
        "updated_ms": NOW + MINUTE
    }


def test_a_new_schedule_ends_the_waiting_after_a_failure() -> None:
    job = replace(made(), next_run_ms=NOW + DAY, consecutive_failures=1)
    after = changed(job, schedule={"every_ms": MINUTE})
    assert (after.next_run_ms, after.consecutive_failures) == (NOW + MINUTE, 1)


def test_a_job_that_a_person_disabled_stays_so_with_a_new_schedule() -> None:
    job = changed(disable_job(made(), NOW), schedule={"every_ms": MINUTE})
    assert (job.enabled, job.next_run_ms, job.due_ms) == (False, None, NOW + MINUTE)


def test_a_job_that_had_come_to_its_end_starts_again_with_a_new_schedule() -> None:
    over = disable_job(replace(made(TOMORROW), due_ms=None), NOW + DAY, "It is over.")
    again = changed(over, NOW + DAY, schedule={"at": NOW + 2 * DAY})
    assert (again.enabled, again.disabled_reason) == (True, None)
    assert again.due_ms == again.next_run_ms == NOW + 2 * DAY
    off = changed(over, NOW + DAY, schedule={"at": NOW + 2 * DAY}, enabled=False)
    assert (off.enabled, off.next_run_ms, off.due_ms) == (False, None, NOW + 2 * DAY)


def test_a_past_time_and_a_new_one_at_once() -> None:
    job = disable_job(made(TOMORROW), NOW)
    after = changed(job, NOW + 2 * DAY, enabled=True, schedule={"at": NOW + 3 * DAY})
    assert (after.enabled, after.next_run_ms) == (True, NOW + 3 * DAY)


# Enabled and disabled


def test_disabling_and_enabling() -> None:
    off = disable_job(made(), NOW + 1)
    assert differences(made(), off) == {
        "enabled": False,
        "next_run_ms": None,
        "updated_ms": NOW + 1,
    }
    on = enable_job(off, NOW + 2, RULES)
    assert differences(made(), on) == {"updated_ms": NOW + 2}


def test_times_that_pass_while_it_is_disabled_are_not_due() -> None:
    on = enable_job(disable_job(made(), NOW), NOW + 5 * HOUR, RULES)
    assert on.due_ms == on.next_run_ms == NOW + 6 * HOUR


def test_no_time_comes_twice_though_the_clock_goes_back() -> None:
    job = replace(made(), due_ms=NOW + 6 * HOUR, next_run_ms=NOW + 6 * HOUR)
    on = enable_job(disable_job(job, NOW + 5 * HOUR), NOW, RULES)
    assert on.due_ms == NOW + 6 * HOUR
    over = replace(disable_job(made(TOMORROW), NOW + DAY), due_ms=None)
    assert "schedule.at is in the past" in refusal(partial(enable_job, over, NOW, RULES))


def test_a_cron_that_had_no_further_time_may_have_one_again() -> None:
    over = replace(disable_job(made(MORNINGS), NOW), due_ms=None)
    assert enable_job(over, NOW, RULES).due_ms == made(MORNINGS).due_ms


def test_enabling_what_is_enabled_keeps_the_times_that_are_due() -> None:
    late = replace(made(), next_run_ms=NOW + 2 * HOUR, consecutive_failures=3)
    on = enable_job(late, NOW + 90 * MINUTE, RULES)
    assert (on.due_ms, on.next_run_ms, on.consecutive_failures) == (NOW + HOUR, NOW + HOUR, 0)


def test_enabling_forgets_failures_and_their_reason() -> None:
    job = replace(disable_job(made(), NOW, "It failed."), consecutive_failures=5)
    on = enable_job(job, NOW, RULES)
    assert (on.consecutive_failures, on.disabled_reason) == (0, None)


def test_a_time_that_is_past_cannot_be_enabled() -> None:
    past = "schedule.at is in the past, 2026-02-03T21:22:38.229Z; set a later time with update."
    off = disable_job(made(TOMORROW), NOW)
    for job in (off, replace(off, due_ms=None)):
        assert refusal(partial(enable_job, job, NOW + DAY, RULES)) == past
        assert refusal(partial(changed, job, NOW + DAY, enabled=True)) == past
    assert enable_job(off, NOW + DAY - 1, RULES).next_run_ms == NOW + DAY


def test_disabling_what_is_disabled_keeps_the_reason() -> None:
    off = disable_job(made(), NOW, "It failed.")
    assert off.disabled_reason == "It failed."
    assert disable_job(off, NOW + 1) is off
    assert changed(off, NOW, enabled=False).disabled_reason == "It failed."


# Made again


def again(job: Job, wanted: Job) -> Job:
    return renew_job(job, wanted, wanted.created_ms, RULES)


def test_a_job_made_again_keeps_its_id_and_its_past() -> None:
    job = replace(made(dedupe_key="m"), last_status="ok", last_run_ms=NOW)
    wanted = replace(
        made(
            MORNINGS,
            NOW + DAY,
            name="new",
            message="Write.",
            session="isolated",
            delete_after_run=True,
            model="fast",
            dedupe_key="m",
        ),
        job_id="j-2",
        session_id="s-2",
        agent_id="",
    )
    after = again(job, wanted)
    assert after == replace(wanted, job_id="j-1", created_ms=NOW, last_status="ok", last_run_ms=NOW)


def test_a_grid_that_is_asked_for_again_is_not_shifted() -> None:
    after = again(made(), made(now_ms=NOW + 59 * MINUTE))
    assert (after.schedule, after.due_ms) == (Every(HOUR, NOW), NOW + HOUR)


def test_a_grid_that_is_asked_for_elsewhere_is() -> None:
    after = again(made(), made({**HOURLY, "at": NOW + MINUTE}, NOW + 2))
    assert (after.schedule, after.due_ms) == (Every(HOUR, NOW + MINUTE), NOW + MINUTE)
    after = again(made(), made({**HOURLY, "every_ms": MINUTE}, NOW + 2))
    assert (after.schedule, after.due_ms) == (Every(MINUTE, NOW + 2), NOW + 2 + MINUTE)


def test_times_that_are_due_are_not_lost_by_asking_again() -> None:
    assert again(made(), made(now_ms=NOW + 3 * HOUR + 1)).due_ms == NOW + HOUR
    assert again(made(MORNINGS), made(MORNINGS, NOW + DAY)).due_ms == made(MORNINGS).due_ms


def test_a_job_asked_for_again_is_enabled_as_it_is_asked_for() -> None:
    off = again(disable_job(made(), NOW), made(now_ms=NOW + 1, enabled=False))
    assert (off.enabled, off.next_run_ms) == (False, None)
    on = again(disable_job(made(), NOW, "It failed."), made(now_ms=NOW + 1))
    assert (on.enabled, on.next_run_ms, on.disabled_reason) == (True, NOW + HOUR, None)
    off = again(made(), made(now_ms=NOW + 1, enabled=False))
    assert (off.enabled, off.next_run_ms) == (False, None)


def test_a_job_that_is_over_can_be_asked_for_again() -> None:
    over = disable_job(replace(made(TOMORROW), due_ms=None), NOW + DAY, "It is over.")
    wanted = made({"kind": "at", "at": NOW + 2 * DAY}, NOW + DAY)
    assert again(over, wanted).next_run_ms == NOW + 2 * DAY
