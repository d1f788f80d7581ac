"""What observers hear: every kind of happening, with its members and its time."""

from __future__ import annotations

from typing import TypeVar, get_args

import msgspec
import pytest

from gateway.errors import BadRequest
from gateway.exchange.additions import AnsweredTurn, UserText
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, Stop, ToolCall
from gateway.exchange.observer import (
    Committed,
    ExchangeEnded,
    ExchangeFailed,
    FirstFrame,
    Happening,
    Heartbeat,
    HeldUntil,
    HoldMoved,
    Released,
    RequestAnswered,
    RequestExtended,
    RequestRefused,
    RouteTried,
    Spliced,
    StateChanged,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    TurnBroke,
    TurnEnded,
    UpstreamClosed,
    UsageRefused,
)
from gateway.exchange.state import ExchangeState
from gateway.exchange.turns import greet

from .fakes import STREAM, FakeTurn, chunk, whole
from .playbook import NOW, Scene, Stage, play

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"


def heard(stage: Stage, kind: type[T]) -> list[T]:
    """Return what was heard of one kind."""
    return [one for one in stage.audience.happenings if isinstance(one, kind)]


PLAIN = """
    >> client asks
    << opens a
    >> a sends "Hi"
    << client sees text "Hi"
    >> a sends " there"
    << client sees text " there"
    >> a stops
    << a is released
    << client sees finish stop, the end
    << exchange is done
    """
FAIL_OVER = """
    >> client asks
    << opens a
    >> 1 s pass
    >> a fails with 503
    << opens b
    >> 2 s pass
    >> b sends "Hi"
    << client sees text "Hi"
    >> b breaks off
    << b is closed
    << client sees error upstream_broke, the end
    << exchange is failed: upstream_broke
    """
TOOL = """
    >> client asks
    << opens a
    >> a calls dice {"sides": 6}
    >> a stops
    << a is released
    << runs dice
    >> 2 s pass
    >> dice returns 4
    << opens a with assistant call dice, tool "4"
    >> a sends "A four."
    << client sees text "A four."
    >> a stops
    << a is released
    << client sees finish stop, the end
    << exchange is done
    """
HELD = """
    >> client asks
    << opens a with the time
    >> a sends "Wait."
    << client sees text "Wait."
    >> reminder tea is set for in 30 s
    >> a stops
    << a is released
    """
WOKEN = """
    >> 30 s pass
    << log reminders_reserved
    << opens a with assistant "Wait.", reminders tea, the time
    """


async def test_a_turn() -> None:
    stage = await play(PLAIN)
    assert heard(stage, RouteTried) == [RouteTried(1, Route("a", "m"))]
    assert heard(stage, FirstFrame) == [FirstFrame(1)]
    assert heard(stage, UpstreamClosed) == [UpstreamClosed(1, was_cut=False)]
    states = [(one.state, one.turn) for one in heard(stage, StateChanged)]
    assert states == [(State.RELAYING, 1), (State.CLOSING, 1), (State.DONE, 1)]
    (ended,) = heard(stage, TurnEnded)
    texts = [chunk({"role": "assistant", "content": text}) for text in ("Hi", " there")]
    assert ended.turn.stop is Stop.STOP
    assert ended.turn.usage is None
    assert ended.bytes == len(b"".join(texts) + chunk({}, "stop") + DONE)
    assert ended.read_text() == "Hi there"
    (extended,) = heard(stage, RequestExtended)
    assert [type(one) for one in extended.additions] == [AnsweredTurn]


async def test_the_bytes_of_a_whole_answer() -> None:
    story = """
        >> client asks
        << opens a
        >> a answers "Hi"
        << a is released
        << client sees 200, text "Hi", finish stop
        << exchange is done
        """
    stage = await play(story, Scene(stream=False))
    (ended,) = heard(stage, TurnEnded)
    assert ended.bytes == len(whole({"content": "Hi"}, "stop"))


async def test_the_bytes_of_a_turn_that_settles() -> None:
    """What another route sent in vain does not count, and what is read meanwhile does."""
    story = """
        >> client asks
        << opens a
        >> a announces an answer
        >> a breaks off
        << a is closed
        << opens b
        >> b announces an answer
        >> b sends "Hi"
        << client sees text "Hi"
        >> b stops
        << b is released
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(routes="ab"))
    (ended,) = heard(stage, TurnEnded)
    texts = [chunk({"role": "assistant", "content": text}) for text in ("", "Hi")]
    assert ended.bytes == len(b"".join(texts) + chunk({}, "stop") + DONE)


async def test_the_pace_of_a_turn() -> None:
    """Its seconds begin with its first frame, so the reads up to that are told apart."""
    story = """
        >> client asks
        << opens a
        >> a announces an answer
        >> a sends "Hi"
        << client sees text "Hi"
        >> 2 s pass
        >> a sends " there"
        << client sees text " there"
        >> 1 s pass
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(routes="ab"))
    (ended,) = heard(stage, TurnEnded)
    assert (ended.reads, ended.first_reads, ended.seconds) == (4, 2, 3.0)


async def test_routes_fail_and_the_answer_breaks_off() -> None:
    stage = await play(FAIL_OVER, Scene(routes="ab"))
    (failed,) = heard(stage, RouteFailed)
    assert (failed.error.status, failed.error.code) == (503, "upstream_error")
    assert heard(stage, UpstreamClosed) == [UpstreamClosed(1, was_cut=True)]
    (broke,) = heard(stage, TurnBroke)
    assert (broke.number, broke.route.upstream, broke.info.owner) == (1, "b", "local")
    (failure,) = heard(stage, ExchangeFailed)
    assert failure.error.code == "upstream_broke"
    (ended,) = heard(stage, ExchangeEnded)
    assert (ended.state, ended.route.upstream, ended.turns) == (State.FAILED, "b", 1)
    assert ended.tries == 2
    assert (ended.status, ended.code, ended.first_seconds) == (200, "upstream_broke", 3.0)


async def test_tools() -> None:
    stage = await play(TOOL, Scene(dice=True))
    call = ToolCall("call_0", "dice", ' {"sides": 6}')
    assert heard(stage, ToolStarted) == [ToolStarted(call)]
    assert heard(stage, ToolReturned) == [ToolReturned(call, "4", 2000)]
    assert heard(stage, Spliced) == [Spliced(2)]


async def test_a_hold() -> None:
    story = f"""{HELD}
        >> client is silent for long
        << client sees a heartbeat
        {WOKEN}
        >> client is silent for long
        << client sees a heartbeat
        >> a sends "Tea!"
        << client sees text "¶¶Tea!"
        << log reminders_committed
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(clock=True))
    assert heard(stage, HeldUntil) == [HeldUntil(NOW + 30_000, NOW)]
    assert [beat.turn for beat in heard(stage, Heartbeat)] == [1, 2]
    assert {beat.info for beat in heard(stage, Heartbeat)} == {heard(stage, ExchangeEnded)[0].info}
    assert heard(stage, ReminderDue) == [ReminderDue()]
    assert heard(stage, Committed) == [Committed()]
    assert not heard(stage, Released)
    assert not heard(stage, HoldMoved)


async def test_a_hold_that_waits_for_something_else_meanwhile() -> None:
    story = f"""{HELD}
        >> reminder cake is set for in 60 s
        >> 1 s pass
        >> reminder tea is cancelled
        >> reminder milk is set for in 4 s
        >> reminders are cancelled
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(clock=True))
    assert heard(stage, HeldUntil) == [HeldUntil(NOW + 30_000, NOW)]
    # A later reminder changes nothing.
    assert heard(stage, HoldMoved) == [
        HoldMoved(NOW + 60_000, NOW + 1000),
        HoldMoved(NOW + 5000, NOW + 1000),
    ]


async def test_a_hold_that_would_last_too_long_does_not_move() -> None:
    story = f"""{HELD}
        >> reminder cake is set for in 7200 s
        >> reminder tea is cancelled
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(clock=True))
    assert not heard(stage, HoldMoved)
    assert [one.reason for one in heard(stage, HoldEnded)] == ["limit"]


async def test_a_hold_that_comes_to_nothing() -> None:
    story = f"""{HELD}
        >> another request takes over
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(clock=True))
    assert heard(stage, HoldEnded) == [HoldEnded("taken_over")]


async def test_a_reminder_is_given_back() -> None:
    story = f"""{HELD}{WOKEN}
        >> a can not be reached
        << log reminders_released
        << client sees finish stop, the end
        << exchange is done: upstream_unreachable
        """
    stage = await play(story, Scene(clock=True))
    assert heard(stage, Released) == [Released()]
    assert not heard(stage, Committed)


async def test_a_stop_message() -> None:
    story = """
        >> client asks
        << opens a
        >> a sends "One."
        << client sees text "One."
        >> a stops
        << a is released
        << opens a with assistant "One.", user "Go on."
        >> a sends "Two."
        << client sees text "¶¶Two."
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene(text='<**stopMessage:"Go on.",1**> Hi'))
    assert heard(stage, StopMessageFired) == [StopMessageFired(1, 1)]
    assert heard(stage, RequestExtended)[0].additions[-1] == UserText("Go on.")


async def test_an_upstream_that_refuses_to_be_asked_for_usage() -> None:
    story = """
        >> client asks
        << opens a
        >> a refuses stream_options
        << opens a
        >> a sends "Hi"
        << client sees text "Hi"
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    stage = await play(story, Scene())
    assert heard(stage, UsageRefused) == [UsageRefused("a")]
    assert heard(stage, ExchangeEnded)[0].tries == 2
    assert not stage.live.services.translators.asks_usage("a")


async def test_a_refusal_that_names_usage_and_has_another_reason() -> None:
    """A client may have written the name; then others are still counted."""
    story = """
        >> client asks
        << opens a
        >> a refuses stream_options
        << opens a
        >> a refuses stream_options
        << client sees 400, error unknown_parameter
        << exchange is failed: upstream_error
        """
    stage = await play(story, Scene())
    assert heard(stage, UsageRefused) == []
    assert stage.live.services.translators.asks_usage("a")


async def test_a_refused_request() -> None:
    stage, error = Stage(Scene(), hears_all=True), BadRequest("No.")
    refused = RequestRefused(ExchangeInfo("req_1", "req_1"), "POST", "/v1/messages", error)
    stage.live.tell(refused)
    assert stage.audience.happenings == [refused]
    answered = RequestAnswered(refused.info, "GET", "/api/clock", 200, 0.1)
    stage.live.tell(answered)
    assert stage.audience.happenings == [refused, answered]
    other = Stage(Scene(), hears_all=False)
    other.live.tell(refused)
    assert not other.audience.happenings


async def test_times_are_those_of_the_clock() -> None:
    stage = await play(FAIL_OVER, Scene(routes="ab"))
    # The stage's steady clock begins at 0, and only the story moves it.
    assert list(zip(stage.audience.kinds, stage.audience.times, strict=True)) == [
        ("RouteTried", 0),
        ("RouteFailed", 1),
        ("StateChanged", 1),
        ("RouteTried", 1),
        ("FirstFrame", 3),
        ("StateChanged", 3),
        ("UpstreamClosed", 3),
        ("TurnBroke", 3),
        ("StateChanged", 3),
        ("ExchangeFailed", 3),
        ("ExchangeEnded", 3),
    ]


@pytest.mark.parametrize("kind", get_args(Happening))
def test_every_kind_is_a_value(kind: type[Happening]) -> None:
    assert issubclass(kind, msgspec.Struct)
    assert kind.__struct_config__.frozen
    assert kind.__name__ in globals(), "no test above hears of it"


@pytest.mark.parametrize("hears_all", [False, True])
async def test_who_does_not_want_it_pays_nothing(hears_all: bool) -> None:
    """Unless heartbeats are wanted, nothing stands before the client."""
    stage = Stage(Scene(), hears_all)
    services, request = stage.live.services, await stage.prepare()
    state = ExchangeState(request, stage.client, stage.audience)
    greet(state, "a", FakeTurn("a", stage.transcript, STREAM))
    (target,) = services.heartbeats._targets.values()
    assert (target is stage.client) is not hears_all
