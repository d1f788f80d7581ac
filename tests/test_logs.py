"""Log lines: one line each, text or JSON, whatever is in them."""

import io
import json
import logging

import anyio

from gateway.logs import Journal, Stamp, set_up


async def test_lines_are_written_a_moment_later_and_stay_one_line() -> None:
    stream = io.StringIO()
    journal = Journal("text", stream, lambda: 1794818291.6081)
    journal.note("exchange", id="req_1", model='a "b"\nc', ms=3.25, stream=True, code=None)
    journal.note("draining")
    assert stream.getvalue() == ""
    with anyio.fail_after(5):
        while not stream.getvalue():  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert stream.getvalue().splitlines() == [
        '2026-11-16T08:38:11.608Z INFO exchange id=req_1 model="a \\"b\\"\\nc" ms=3.25 stream=True',
        "2026-11-16T08:38:11.608Z INFO draining",
    ]


async def test_json_lines() -> None:
    stream = io.StringIO()
    journal = Journal("json", stream, lambda: 0.5)
    journal.note("exchange", model="a\nb", ms=1.5)
    journal.flush()
    journal.flush()
    assert json.loads(stream.getvalue()) == {
        "time": "1970-01-01T00:00:00.500Z",
        "level": "info",
        "event": "exchange",
        "model": "a\nb",
        "ms": 1.5,
    }


def test_what_logging_takes_has_the_same_form() -> None:
    stream = io.StringIO()
    before = logging.getLogger().handlers[:]
    try:
        set_up("text", stream)
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logging.getLogger("holdgate.web").exception("request %s failed", "req_1")
        logging.getLogger("uvicorn").info("not shown")
    finally:
        logging.getLogger().handlers[:] = before
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert 'ERROR log logger=holdgate.web says="request req_1 failed" exception=' in lines[0]


def test_a_stamp_asks_the_calendar_once_a_second() -> None:
    stamp = Stamp()
    assert stamp(1.001) == "1970-01-01T00:00:01.001Z"
    assert stamp(1.999) == "1970-01-01T00:00:01.999Z"
    assert stamp(60.0) == "1970-01-01T00:01:00.000Z"
