"""Stop messages: the session goes on by itself, so often and no longer."""

from __future__ import annotations

from gateway.exchange.observer import StopMessageFired

from .playbook import OWNER, SESSION, Scene, Stage, play

TWICE = Scene(text='<**stopMessage:"Go on.",2**> Hi')
TEN_TIMES = Scene(text='<**stopMessage:"Go on.",10**> Hi')


async def uses(stage: Stage) -> tuple[int, bool]:
    """Say how often the stop message counts as used, and whether it is armed."""
    stop = (await stage.states.show(OWNER, SESSION)).stop
    assert stop is not None
    return stop.used, stop.armed


def turn(number: int, text: str) -> str:
    """Write a turn that is followed by the stop message."""
    shown = text if number == 1 else f"¶¶{text}"
    return f"""
        >> a sends "{text}"
        << client sees text "{shown}"
        >> a stops
        << a is released
        << opens a with assistant "{text}", user "Go on."
        """


BEGIN = """
        >> client asks
        << opens a
        """


async def test_it_fires_twice_and_then_no_more() -> None:
    stage = await play(
        BEGIN
        + turn(1, "One.")
        + turn(2, "Two.")
        + """
        >> a sends "Three."
        << client sees text "¶¶Three."
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        TWICE,
    )
    fired = [one for one in stage.audience.happenings if isinstance(one, StopMessageFired)]
    assert fired == [StopMessageFired(1, 2), StopMessageFired(2, 2)]
    assert await uses(stage) == (2, False)


async def test_the_same_answer_five_times_disarms_it() -> None:
    stage = await play(
        BEGIN
        + "".join(turn(number, "Done.") for number in range(1, 5))
        + """
        >> a sends "Done."
        << client sees text "¶¶Done."
        >> a stops
        << a is released
        << log stop_message_disarmed
        << client sees finish stop, the end
        << exchange is done
        """,
        TEN_TIMES,
    )
    assert await uses(stage) == (10, False)


async def test_an_empty_follow_up_disarms_it() -> None:
    await play(
        BEGIN
        + turn(1, "One.")
        + """
        >> a stops
        << a is released
        << log stop_message_disarmed
        << client sees finish stop, the end
        << exchange is done
        """,
        TEN_TIMES,
    )


async def test_a_follow_up_that_fails_is_tried_once_more() -> None:
    stage = await play(
        BEGIN
        + turn(1, "One.")
        + """
        >> a fails with 503
        << opens a
        >> a fails with 503
        << log stop_message_disarmed
        << client sees finish stop, the end
        << exchange is done: upstream_error
        """,
        TEN_TIMES,
    )
    assert await uses(stage) == (10, False)


async def test_what_can_not_be_counted_is_not_sent() -> None:
    await play(
        BEGIN
        + """
        >> a sends "One."
        << client sees text "One."
        >> store goes down
        >> a stops
        << a is released
        << log session_not_stored
        << log session_not_stored
        << client sees finish stop, the end
        << exchange is done
        """,
        TEN_TIMES,
    )


async def test_what_falls_due_goes_with_it() -> None:
    await play(
        """
        >> client asks
        << opens a with the time
        >> a sends "One."
        << client sees text "One."
        >> reminder tea is set for in 0 s
        >> a stops
        << a is released
        << log reminders_reserved
        << opens a with assistant "One.", reminders tea, user "Go on."
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> client leaves
        << a is closed
        << exchange is gone
        """,
        Scene(text=TWICE.text, clock=True),
    )
