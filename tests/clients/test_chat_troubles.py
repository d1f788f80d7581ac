"""Chat Completions as real clients read them: errors, and clients that leave."""

from __future__ import annotations

import time

from .catalogue import SDK_FORMS, shows
from .processes import Running
from .reading import Ask, Form

REFUSALS = (
    (Ask("Hello!", model="nobody"), 404, "NotFoundError", "nobody"),
    (Ask("demo: nonsense"), 400, "BadRequestError", "nonsense"),
    (Ask('demo: status=401 message="Who are you?"'), 502, "InternalServerError", "refused the"),
    (Ask('demo: status=422 message="No such size."'), 422, "UnprocessableEntityError", "size"),
    (Ask('demo: status=429 message="Slow down."'), 429, "RateLimitError", "Slow down."),
    (Ask('demo: status=503 message="Full up."'), 503, "InternalServerError", "Full up."),
    (Ask("demo: drop"), 502, "InternalServerError", ""),
)
BREAKS = (
    ('demo: say="Half a word" delay_ms=1 error_after=2 message="Out of words."', "Out of words."),
    ('demo: say="Half a word" delay_ms=1 drop_after=2', "upstream"),
    ('demo: say="Half a word" delay_ms=1 reset_after=2', "upstream"),
)
WELL = 'demo: say="All is well." delay_ms=1'


@shows("error statuses")
def test_a_refusal_has_its_status_and_says_why(form: Form, gateway: Running) -> None:
    readings = form.read(gateway.url, [ask for ask, *_ in REFUSALS])
    for reading, (_, status, name, why) in zip(readings, REFUSALS, strict=True):
        assert reading.failure is not None
        assert reading.failure.status == status
        assert why in reading.failure.message
        assert reading.failure.name == (name if form in SDK_FORMS else "")


@shows("errors in mid-stream")
def test_a_stream_that_breaks_off_says_so(form: Form, gateway: Running) -> None:
    readings = form.read(gateway.url, [Ask(order) for order, _ in BREAKS] + [Ask(WELL)])
    for reading, (_, why) in zip(readings[:-1], BREAKS, strict=True):
        assert len(reading.arrivals) == 2
        assert reading.failure is not None
        assert why in reading.failure.message
        assert reading.failure.name == ("APIError" if form in SDK_FORMS else "")
        assert reading.finishes == ()
        assert reading.end_marks == 0
    assert readings[-1].text == "All is well."


@shows("`retry-after`", [form for form in SDK_FORMS if form.reads_whole])
def test_retry_after_is_honoured(form: Form, gateway: Running) -> None:
    before = len(gateway.exchanges(status=429))
    begun = time.monotonic()
    (reading,) = form.read(gateway.url, [Ask("demo: status=429 retry_after=1", retries=1)])
    # Left to themselves, the SDKs wait half a second at most before the first retry.
    assert time.monotonic() - begun >= 1
    assert reading.failure is not None
    assert reading.failure.name == "RateLimitError"
    gateway.until(lambda: len(gateway.exchanges(status=429)) == before + 2)


@shows("leaving, and asking again")
def test_whoever_leaves_may_ask_again(form: Form, gateway: Running) -> None:
    before = len(gateway.exchanges(state="gone"))
    left, again = form.read(
        gateway.url,
        [Ask('demo: say="One two three" delay_ms=1 hang_after=2', leave_after=2), Ask(WELL)],
    )
    assert left.text == "One two"
    assert again.text == "All is well."
    assert again.failure is None
    gateway.until(lambda: len(gateway.exchanges(state="gone")) == before + 1)
