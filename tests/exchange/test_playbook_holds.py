"""Answers that are held open: for reminders and results, and all that ends a hold."""

from __future__ import annotations

import pytest

from gateway.exchange.events import HoldEnded, Verdict, WaitUntil
from gateway.exchange.rules import RULES, Facts, Rule

from .playbook import Scene, Stage, play

CLOCK = Scene(clock=True)
# Up to where the answer is held open for a reminder that is due in half a minute.
HELD = """
        >> client asks
        << opens a with the time
        >> a sends "Wait."
        << client sees text "Wait."
        >> reminder tea is set for in 30 s
        >> a stops
        << a is released
        """


def reasons(stage: Stage) -> list[str]:
    """Say why holds ended without anything to tell."""
    return [one.reason for one in stage.audience.happenings if isinstance(one, HoldEnded)]


async def test_hold_and_wake() -> None:
    stage = await play(
        HELD
        + """
        >> client is silent for long
        << client sees a heartbeat
        >> 29 s pass
        >> 1 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> a announces an answer
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )
    kinds = stage.audience.kinds
    start = kinds.index("HeldUntil")
    assert kinds[start : start + 6] == [
        "HeldUntil",
        "RequestExtended",
        "Heartbeat",
        "ReminderDue",
        "StateChanged",
        "RouteTried",
    ]
    assert kinds.index("Committed") > kinds.index("Spliced")


async def test_a_whole_answer_is_held() -> None:
    """White space begins it; what it told of counts when the client has all of it."""
    await play(
        """
        >> reminder tea is set for in 30 s
        >> client asks
        << opens a with the time
        >> a answers "Wait."
        << a is released
        >> client is silent for long
        << client sees a heartbeat
        >> 30 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> a answers "Tea!"
        << a is released
        << client sees text "Wait.¶¶Tea!", finish stop, the end
        << log reminders_committed
        << exchange is done
        """,
        Scene(clock=True, stream=False),
    )


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("reminders are cancelled", "reminder_gone"),
        ("another request takes over", "taken_over"),
        ("holds are drained", "draining"),
    ],
)
async def test_what_ends_a_hold(event: str, reason: str) -> None:
    stage = await play(
        f"""{HELD}
        >> {event}
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )
    assert reasons(stage) == [reason]


@pytest.mark.parametrize(
    ("event", "reason"),
    [("gateway has to go", "draining"), ("session is deleted", "session_deleted")],
)
async def test_a_hold_is_cut(event: str, reason: str) -> None:
    stage = await play(
        f"""{HELD}
        >> {event}
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )
    assert stage.holds.counts.outcomes == {"client_gone": 1}
    assert reasons(stage) == [reason]


async def test_too_late_for_a_hold() -> None:
    stage = await play(
        HELD
        + """
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, hold_max_ms=29_000),
    )
    assert stage.holds.counts.started == 0


async def test_holds_of_one_answer_are_bounded_together() -> None:
    stage = await play(
        HELD
        + """
        >> 30 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> reminder cake is set for in 30 s
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, hold_total_ms=59_000),
    )
    assert stage.holds.counts.started == 1


async def test_a_clock_that_is_set_back_makes_nobody_more_patient() -> None:
    stage = await play(
        HELD
        + """
        >> clock is set back by 600 s
        >> 60 s pass
        >> 1 s pass
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )
    assert reasons(stage) == ["limit"]


async def test_a_reminder_that_comes_earlier_ends_the_hold_earlier() -> None:
    await play(
        HELD
        + """
        >> reminder cake is set for in 5 s
        >> 5 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders cake, the time
        >> a sends "Cake!"
        << client sees text "¶¶Cake!"
        << log reminders_committed
        >> a stops
        << a is released
        >> 25 s pass
        << log reminders_reserved
        << opens a with assistant "Cake!", reminders tea, the time
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )


def wait_at_most(most_ms: int) -> tuple[Rule, ...]:
    """Return the rules of a machine that has less patience than the settings have."""

    def rule(facts: Facts) -> Verdict | None:
        return None if facts.wait is None else WaitUntil(facts.wait.at_ms, most_ms)

    return (rule, *RULES)


async def test_the_machine_says_how_long_a_hold_lasts() -> None:
    """For what is ready later than that nobody waits."""
    stage = await play(
        HELD
        + """
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, rules=wait_at_most(29_999)),
    )
    assert reasons(stage) == ["limit"]
    await play(
        HELD
        + """
        >> 30 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> another request takes over
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, rules=wait_at_most(30_000)),
    )


async def test_the_machine_says_it_also_when_the_clock_is_set_back() -> None:
    """The settings would have it wait for a minute."""
    stage = await play(
        HELD
        + """
        >> clock is set back by 600 s
        >> 35 s pass
        >> 1 s pass
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, rules=wait_at_most(35_000)),
    )
    assert reasons(stage) == ["limit"]


RUNNING = """
        >> a run is under way
        >> client asks
        << opens a with the time
        >> a sends "Wait."
        << client sees text "Wait."
        >> a stops
        << a is released
        """


async def test_a_result_ends_a_hold() -> None:
    await play(
        RUNNING
        + """
        >> 10 s pass
        >> the run ends with "42"
        << log deliveries_reserved
        << opens a with assistant "Wait.", results 42, the time
        >> a sends "It is 42."
        << client sees text "¶¶It is 42."
        << log deliveries_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, hold_for_jobs=True),
    )


async def test_a_run_takes_too_long() -> None:
    """The machine says how long, whatever the settings say."""
    stage = await play(
        RUNNING
        + """
        >> 5 s pass
        >> 1 s pass
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(clock=True, hold_for_jobs=True, rules=wait_at_most(5_000)),
    )
    assert reasons(stage) == ["limit"]


async def test_a_follow_up_that_is_lost_gives_back_what_it_carried() -> None:
    await play(
        HELD
        + """
        >> 30 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> a fails with 503
        << log reminders_released
        << client sees finish stop, the end
        << exchange is done: upstream_error
        """,
        CLOCK,
    )


async def test_a_follow_up_that_breaks_off_before_it_says_anything() -> None:
    await play(
        HELD
        + """
        >> 30 s pass
        << log reminders_reserved
        << opens a with assistant "Wait.", reminders tea, the time
        >> a announces an answer
        >> a breaks off
        << a is closed
        << log reminders_released
        << client sees finish stop, the end
        << exchange is done: upstream_broke
        """,
        CLOCK,
    )


async def test_what_is_due_comes_with_the_request() -> None:
    await play(
        """
        >> reminder tea is set for in 0 s
        >> client asks
        << log reminders_reserved
        << opens a with reminders tea, the time
        >> a sends "Tea!"
        << client sees text "Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )


async def test_a_delivery_that_can_not_be_written_is_owed() -> None:
    """The client has seen it: it is not offered again, and written when the store is back."""
    stage = await play(
        """
        >> reminder tea is set for in 0 s
        >> client asks
        << log reminders_reserved
        << opens a with reminders tea, the time
        >> store goes down
        >> a sends "Tea!"
        << client sees text "Tea!"
        << log reminders_owed
        << log reminders_committed
        >> a stops
        << a is released
        << log reminders_not_read
        << client sees finish stop, the end
        << exchange is done
        >> store is back
        >> reminders are swept
        """,
        CLOCK,
    )
    assert "Committed" in stage.audience.kinds
    assert await stage.reminders.list_undelivered("local", "s") == ()


async def test_the_model_sets_a_reminder_and_is_held_for_it() -> None:
    due = "2026-02-02T21:22:48.229Z"
    await play(
        f"""
        >> client asks
        << opens a with the time
        >> a calls clock {{"action": "schedule", "items": [{{"dueAt": "{due}", "task": "tea"}}]}}
        >> a stops
        << a is released
        << opens a with assistant call clock, tool of the clock
        >> a sends "Set."
        << client sees text "Set."
        >> a stops
        << a is released
        >> 10 s pass
        << log reminders_reserved
        << opens a with assistant "Set.", reminders tea, the time
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        CLOCK,
    )
