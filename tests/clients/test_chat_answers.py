"""Chat Completions as real clients read them: answers that go well."""

from __future__ import annotations

from .catalogue import RAW_FORMS, SDK_FORMS, WHOLE_FORMS, shows
from .going_on import FOLLOW_UPS
from .processes import Running
from .reading import Ask, Call, Form, Reading, Tokens

STEPS = 0.06, 0.25, 1.0
"""Seconds between two pieces: more if this machine was too busy to tell them apart."""
SILENCES = 250, 1000, 4000
"""Milliseconds for heartbeats: more if this machine was too busy to send some."""


def read_one(form: Form, gateway: Running, ask: Ask) -> Reading:
    """Have one answer read that is expected to go well."""
    (reading,) = form.read(gateway.url, [ask])
    assert reading.failure is None
    return reading


@shows("answers event by event")
def test_an_answer_is_read_as_it_comes(form: Form, gateway: Running) -> None:
    # A client that got no time at first finds all pieces at once, as if it had been kept waiting
    # for all; one that is kept waiting finds them so at any pace.
    assert any(comes_in_steps(form, gateway, step) for step in STEPS)


def comes_in_steps(form: Form, gateway: Running, step: float) -> bool:
    """Have six pieces read, and tell whether they came one after another."""
    order = f'demo: say="One two three four five six" delay_ms={step * 1000:.0f}'
    # What a client loads with its first answer may take as long as the second does.
    _, reading = form.read(gateway.url, [Ask("demo: tokens=1 delay_ms=0"), Ask(order)])
    assert reading.failure is None
    assert reading.text == "One two three four five six"
    assert reading.role == "assistant"
    assert reading.finishes == ("stop",)
    assert len(reading.ids) == 1
    assert len(reading.arrivals) == 6
    # The upstream takes five steps between the first piece and the last.
    return reading.arrivals[-1] - reading.arrivals[0] > 2 * step


@shows("`[DONE]` once, at the end", RAW_FORMS)
def test_the_end_is_said_once(form: Form, gateway: Running) -> None:
    reading = read_one(form, gateway, Ask("demo: tokens=3 delay_ms=0 two_done"))
    assert reading.end_marks == 1


@shows("whole answers", WHOLE_FORMS)
def test_an_answer_that_is_not_streamed(form: Form, gateway: Running) -> None:
    reading = read_one(form, gateway, Ask('demo: say="All at once."', stream=False))
    assert (reading.text, reading.role) == ("All at once.", "assistant")
    assert reading.finishes == ("stop",)
    assert reading.tokens == Tokens(input=4, output=3)


@shows("tool calls")
def test_tool_calls(form: Form, gateway: Running) -> None:
    order = (
        'demo: say="Let me see." delay_ms=1'
        ' tool=get_weather args={"city":"Paris","days":[1,2,3]} tool=look args={"at":"☃"}'
    )
    reading = read_one(form, gateway, Ask(order, tools=("get_weather", "look")))
    assert reading.text == "Let me see."
    assert reading.finishes == ("tool_calls",)
    assert reading.calls == (
        Call("get_weather", '{"city":"Paris","days":[1,2,3]}'),
        Call("look", '{"at":"☃"}'),
    )


@shows("usage when asked for")
def test_usage_comes_when_it_is_asked_for(form: Form, gateway: Running) -> None:
    order = "demo: tokens=5 delay_ms=0"
    asks = [Ask(order, usage=True), Ask(order)]
    asked, not_asked = form.read(gateway.url, asks)
    assert asked.tokens == Tokens(input=3, output=5)
    assert not_asked.tokens is None
    assert asked.text == not_asked.text


@shows("heartbeats")
def test_heartbeats_do_not_disturb(form: Form, beating: Running) -> None:
    assert any(beats_in_silence(form, beating, silence) >= 2 for silence in SILENCES)


def beats_in_silence(form: Form, beating: Running, silence: int) -> int:
    """Have an answer read that is silent for so long, and count its heartbeats."""
    order = f'demo: say="Wait for it." delay_ms=0 quiet_ms={silence}@2 tool=look args={{"at":1}}'
    reading = read_one(form, beating, Ask(order, usage=True, tools=("look",)))
    assert reading.text == "Wait for it."
    assert reading.role == "assistant"
    assert reading.calls == (Call("look", '{"at":1}'),)
    assert reading.finishes == ("tool_calls",)
    assert len(reading.ids) == 1
    assert reading.tokens is not None
    return reading.beats


SPOKEN = ("First of all.", "This is the second.", "And the last.")
ORDER = f'demo: say="{SPOKEN[0]}" delay_ms=2'


def words(text: str) -> int:
    """Count tokens as the demo model does."""
    return 1 + text.count(" ")


def tokens_of_three_turns() -> Tokens:
    """Sum up what the three turns cost: each is sent all that was said before."""
    talk = [ORDER, SPOKEN[0], FOLLOW_UPS[0], SPOKEN[1], FOLLOW_UPS[1]]
    sent = [sum(map(words, talk[:count])) for count in (1, 3, 5)]
    return Tokens(input=sum(sent), output=sum(map(words, SPOKEN)))


@shows("three turns as one message")
def test_three_turns_are_one_message(form: Form, going_on: Running) -> None:
    before = len(going_on.exchanges(turns=3))
    reading = read_one(form, going_on, Ask(ORDER, usage=True))
    assert reading.text == "\n\n".join(SPOKEN)
    assert reading.role == "assistant"
    assert reading.finishes == ("stop",)
    assert len(reading.ids) == 1
    assert reading.tokens == tokens_of_three_turns()
    # On a busy machine some are left out, but never all: the silences are much longer than a beat.
    assert reading.beats >= 1
    assert reading.end_marks == (0 if form in SDK_FORMS else 1)
    going_on.until(lambda: len(going_on.exchanges(turns=3)) == before + 1)


@shows("three turns as one message", WHOLE_FORMS)
def test_three_turns_are_one_whole_message(form: Form, going_on: Running) -> None:
    reading = read_one(form, going_on, Ask(ORDER, stream=False))
    assert reading.text == "\n\n".join(SPOKEN)
    assert reading.finishes == ("stop",)
    assert reading.tokens == tokens_of_three_turns()
