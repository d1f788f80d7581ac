"""The client leaves, the gateway has to go, or something of ours breaks: in each state once."""

from __future__ import annotations

import pytest

from gateway.exchange.machine import State
from gateway.exchange.observer import ExchangeEnded

from .playbook import Scene, Stage, play

ALL = Scene(clock=True, dice=True)
# How each state is come into; in the first three the turn carries a reminder that is due.
OPENING = """
    >> reminder tea is set for in 0 s
    >> client asks
    << log reminders_reserved
    << opens a with reminders tea, the time
    """
WAITING = OPENING + ">> a opens"
RELAYING = """
    >> client asks
    << opens a with the time
    >> a sends "Hi"
    << client sees text "Hi"
    """
TOOLING = """
    >> client asks
    << opens a with the time
    >> a sends "Hi"
    << client sees text "Hi"
    >> a calls dice
    >> a stops
    << a is released
    << runs dice
    """
HOLDING = """
    >> client asks
    << opens a with the time
    >> a sends "Hi"
    << client sees text "Hi"
    >> reminder tea is set for in 30 s
    >> a stops
    << a is released
    """
WAKING = (
    HOLDING
    + """
    >> 30 s pass
    << log reminders_reserved
    << opens a with assistant "Hi", reminders tea, the time
    """
)
CLOSING = """
    >> client asks
    << opens a with the time
    >> a sends "Hi"
    << client sees text "Hi"
    >> client stops reading
    >> a stops
    << a is released
    """


def end(stage: Stage) -> ExchangeEnded:
    """Return how it is told that the exchange went."""
    ended = stage.audience.happenings[-1]
    assert isinstance(ended, ExchangeEnded)
    assert stage.audience.kinds.count("ExchangeEnded") == 1
    return ended


@pytest.mark.parametrize(
    ("so_far", "effects", "state"),
    [
        (OPENING, "<< a is no longer asked\n<< log reminders_released", State.GONE),
        (WAITING, "<< log reminders_released\n<< a is closed", State.GONE),
        (RELAYING, "<< a is closed", State.GONE),
        (TOOLING, "<< dice is stopped", State.GONE),
        (HOLDING, "", State.GONE),
        (WAKING, "<< a is no longer asked\n<< log reminders_released", State.GONE),
        (CLOSING, "", State.DONE),
    ],
)
async def test_the_client_leaves(so_far: str, effects: str, state: State) -> None:
    stage = await play(f"{so_far}\n>> client leaves\n{effects}\n<< exchange is {state}", ALL)
    assert end(stage).state is state
    assert not stage.client.ended


async def test_the_client_leaves_a_whole_answer() -> None:
    """What earlier turns carried was not seen by anybody either."""
    await play(
        """
        >> reminder tea is set for in 0 s
        >> client asks
        << log reminders_reserved
        << opens a with reminders tea, the time
        >> a answers with a call of dice
        << a is released
        << runs dice
        >> client leaves
        << dice is stopped
        << log reminders_released
        << exchange is gone
        """,
        Scene(clock=True, dice=True, stream=False),
    )


@pytest.mark.parametrize(
    ("so_far", "effects", "told"),
    [
        (
            OPENING,
            "<< a is no longer asked\n<< log reminders_released\n<< client sees 503, error draining",
            "failed: draining",
        ),
        (
            WAITING,
            "<< log reminders_released\n<< client sees 503, error draining\n<< a is closed",
            "failed: draining",
        ),
        (RELAYING, "<< client sees error draining, the end\n<< a is closed", "failed: draining"),
        (TOOLING, "<< dice is stopped\n<< client sees finish stop, the end", "done"),
        (HOLDING, "<< client sees finish stop, the end", "done"),
        (
            WAKING,
            "<< a is no longer asked\n<< log reminders_released\n"
            "<< client sees finish stop, the end",
            "done",
        ),
        (CLOSING, "", "done"),
    ],
)
async def test_the_gateway_has_to_go(so_far: str, effects: str, told: str) -> None:
    await play(f"{so_far}\n>> gateway has to go\n{effects}\n<< exchange is {told}", ALL)


@pytest.mark.parametrize(
    ("so_far", "fault", "effects"),
    [
        (OPENING, "a has a fault", "<< log reminders_released"),
        (WAITING, "a has a fault", "<< log reminders_released\n<< a is closed"),
        (RELAYING, "a has a fault", "<< a is closed"),
        (TOOLING, "dice has a fault", ""),
        (HOLDING, "store has a fault\n>> 30 s pass", ""),
        (WAKING, "a has a fault", "<< log reminders_released"),
    ],
)
async def test_something_of_ours_breaks(so_far: str, fault: str, effects: str) -> None:
    """The runner tells of it and raises; its caller says it to the client, once."""
    seen = "503, error unavailable" if "sees" not in so_far else "error unavailable, the end"
    stage = await play(
        f"""{so_far}
        >> {fault}
        {effects}
        << exchange is failed: unavailable
        << runner raises RuntimeError
        << client sees {seen}
        """,
        ALL,
    )
    ended = end(stage)
    assert (ended.state, ended.code) == (State.FAILED, "unavailable")
    assert ended.status == (503 if "sees" not in so_far else 200)


async def test_a_fault_while_frames_are_shown() -> None:
    await play(
        f"""{RELAYING}
        >> client has a fault
        >> a sends " there"
        << a is closed
        << exchange is failed: unavailable
        << runner raises RuntimeError
        << client sees error unavailable, the end
        """,
        ALL,
    )


async def test_a_session_is_deleted() -> None:
    await play(
        f"""{RELAYING}
        >> session is deleted
        << client sees error session_deleted, the end
        << a is closed
        << exchange is failed: session_deleted
        """,
        ALL,
    )
