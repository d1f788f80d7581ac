"""The clock behind Chat Completions: a model calls it, and no real client sees anything of it."""

from __future__ import annotations

import re

from .catalogue import SDK_FORMS, WHOLE_FORMS, shows
from .processes import Running
from .reading import Ask, Call, Form, Reading

GET = 'tool=clock args={"action":"get","items":[],"taskId":""}'
BROKEN = 'tool=clock args="{no JSON"'
SPOKEN = ("Let me look.", "Once more.", "It is late.")
# Two turns that call the clock, the second one wrongly, and silence before the last.
ORDERS = (
    f'demo: say="{SPOKEN[0]}" delay_ms=2 {GET}\n'
    f'demo: say="{SPOKEN[1]}" delay_ms=2 {GET} {BROKEN}\n'
    f'demo: say="{SPOKEN[2]}" delay_ms=2 first_ms=300'
)
WEATHER = 'tool=get_weather args={"city":"Paris"}'


def read_one(form: Form, gateway: Running, ask: Ask) -> Reading:
    """Have one answer read: one message of one id, whatever went on behind it."""
    (reading,) = form.read(gateway.url, [ask])
    assert reading.failure is None
    assert reading.role == "assistant"
    assert len(reading.ids) == 1
    return reading


@shows("the clock called in between, unseen")
def test_calls_of_the_clock_are_not_seen(form: Form, timed: Running) -> None:
    before = len(timed.exchanges(turns=3))
    reading = read_one(form, timed, Ask(ORDERS, usage=True))
    assert reading.text == "\n\n".join(SPOKEN)
    assert reading.finishes == ("stop",)
    assert reading.calls == ()
    # On a busy machine some are left out, but never all: the silences are much longer than a beat.
    assert reading.beats >= 1
    assert reading.tokens is not None
    assert reading.end_marks == (0 if form in SDK_FORMS else 1)
    timed.until(lambda: len(timed.exchanges(turns=3)) == before + 1)


@shows("the clock called in between, unseen", WHOLE_FORMS)
def test_calls_of_the_clock_are_not_seen_in_a_whole_answer(form: Form, timed: Running) -> None:
    reading = read_one(form, timed, Ask(ORDERS, stream=False))
    assert reading.text == "\n\n".join(SPOKEN)
    assert reading.finishes == ("stop",)
    assert reading.calls == ()


@shows("the clock called in between, unseen")
def test_a_call_beside_the_clock_is_the_only_one(form: Form, timed: Running) -> None:
    order = f'demo: say="Let me see." delay_ms=2 {GET} {WEATHER} {GET}'
    reading = read_one(form, timed, Ask(order, tools=("get_weather",)))
    assert reading.text == "Let me see."
    assert reading.finishes == ("tool_calls",)
    assert reading.calls == (Call("get_weather", '{"city":"Paris"}'),)


@shows("what time it is")
def test_a_model_that_is_asked_tells_the_time(form: Form, timed: Running) -> None:
    reading = read_one(form, timed, Ask("What time is it?"))
    assert re.search(r"\d\d:\d\d", reading.text)
    assert reading.finishes == ("stop",)
    assert reading.calls == ()
