"""Log lines: one line each, text or JSON, whatever is in them."""

import fcntl
import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import gateway
from gateway.logs import EVENT_LEVELS, LEVELS, EventLog, LogWriter, bind_ids, set_up
from gateway.timestamps import iso

GATEWAY = Path(gateway.__file__).parent
ROOT = GATEWAY.parent


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """A pipe that is full already, and a stream that writes to it."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        while True:
            os.write(writes, bytes(4096))
    except BlockingIOError:
        fcntl.fcntl(writes, fcntl.F_SETFL, 0)
    with os.fdopen(writes, "w") as stream:
        yield reads, stream
        os.close(reads)


def read_all(descriptor: int, last: bytes) -> bytes:
    """Read a pipe up to this, without what it was filled with."""
    found = b""
    while not found.endswith(last):
        found += os.read(descriptor, 65536)
    return found.lstrip(b"\0")


@pytest.mark.parametrize(
    "form, told",
    [
        ("text", b"WARNING log_lines_dropped lines=7\n"),
        ("json", b'"event":"log_lines_dropped","lines":7}\n'),
    ],
)
def test_a_log_nobody_reads_blocks_nobody_and_says_what_was_dropped(
    form: str, told: bytes, pipe: tuple[int, io.TextIOWrapper]
) -> None:
    reads, stream = pipe
    writer = LogWriter(stream, form, most=100)
    for number in range(9):
        writer.write(f"line {number} {'x' * 42}\n")
    writer.close(0.01)
    assert writer.dropped == 7
    lines = read_all(reads, told).splitlines()
    assert [line[:6] for line in lines[:-1]] == [b"line 0", b"line 1"]
    writer.write("and on\n")
    assert read_all(reads, b"and on\n") == b"and on\n"
    assert writer.dropped == 7


def test_a_log_whose_reader_left_is_no_trouble(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reads, stream = pipe
    writer = LogWriter(stream, "text")
    writer.write("one\ntwo\n")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, reads)
    os.close(null)
    writer.close(5)
    assert writer.dropped == 2


def test_lines_of_many_threads_come_whole() -> None:
    stream = io.StringIO()
    writer = LogWriter(stream, "text")
    threads = [threading.Thread(target=writer.write, args=(f"{n}\n" * 50,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close(5)
    assert sorted(stream.getvalue().split()) == sorted(str(n) for n in range(8) for _ in range(50))


async def test_lines_are_written_a_moment_later_and_stay_one_line() -> None:
    stream = io.StringIO()
    event_log = EventLog("text", stream, lambda: 1794818291.6081)
    event_log.note("exchange", id="req_1", model='a "b"\nc', ms=3.25, stream=True, code=None)
    event_log.note("draining")
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
    event_log = EventLog("json", stream, lambda: 0.5)
    event_log.note("exchange", model="a\nb", ms=1.5)
    event_log.flush()
    event_log.flush()
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
        set_up(EventLog("text", stream))
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


def test_instants_of_one_second_and_of_the_next() -> None:
    assert iso(1_001) == "1970-01-01T00:00:01.001Z"
    assert iso(1_999) == "1970-01-01T00:00:01.999Z"
    assert iso(60_000) == "1970-01-01T00:01:00.000Z"


async def test_lines_of_a_task_carry_the_ids_of_its_request() -> None:
    stream = io.StringIO()
    event_log = EventLog("text", stream, lambda: 0)

    async def answer(exchange: str, request: str) -> None:
        bind_ids(exchange, request)
        await anyio.lowlevel.checkpoint()
        event_log.note("tool", tool="clock")
        logging.getLogger("holdgate.test").warning("odd")

    before = logging.getLogger().handlers[:]
    try:
        set_up(event_log)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "req_1", "mine")
            tasks.start_soon(answer, "req_2", "req_2")
        event_log.note("draining")
    finally:
        logging.getLogger().handlers[:] = before
    event_log.flush()
    lines = [line.partition(" ")[2] for line in stream.getvalue().splitlines()]
    assert sorted(lines) == [
        "INFO draining",
        "INFO tool exchange=req_1 request=mine tool=clock",
        "INFO tool exchange=req_2 tool=clock",
        "WARNING log exchange=req_1 request=mine logger=holdgate.test says=odd",
        "WARNING log exchange=req_2 logger=holdgate.test says=odd",
    ]


async def test_what_logging_is_told_last_is_written_with_the_rest() -> None:
    """At the end nothing is left of the loop that could take it later."""
    stream = io.StringIO()
    event_log = EventLog("text", stream, lambda: 0)
    before = logging.getLogger().handlers[:]
    try:
        set_up(event_log)
        event_log.note("draining")
        logging.getLogger("uvicorn.error").error("odd")
        event_log.flush()
    finally:
        logging.getLogger().handlers[:] = before
    assert [line.split(" ")[2] for line in stream.getvalue().splitlines()] == ["draining", "log"]


async def test_levels() -> None:
    stream = io.StringIO()
    event_log = EventLog("text", stream, lambda: 0, "warning")
    event_log.note("draining")
    event_log.note("directive_ignored")
    event_log.note("quarantined")
    event_log.note("draining", level="error")
    event_log.flush()
    levels = [line.split()[1:3] for line in stream.getvalue().splitlines()]
    assert levels == [
        ["WARNING", "directive_ignored"],
        ["ERROR", "quarantined"],
        ["ERROR", "draining"],
    ]
    assert [event_log.writes(level) for level in LEVELS] == [False, False, True, True]


def test_what_could_not_be_read_or_written_is_an_error() -> None:
    """A line whose event says that something was not done has a level of its own."""
    source = "".join(path.read_text() for path in GATEWAY.rglob("*.py"))
    events = set(re.findall(r'"([a-z]+(?:_[a-z]+)*_not_[a-z]+)"', source))
    assert len(events) > 15
    assert events - {"model_not_found", "method_not_allowed"} <= EVENT_LEVELS.keys()


def test_every_event_is_explained_in_the_docs() -> None:
    source = "".join(path.read_text() for path in GATEWAY.rglob("*.py"))
    events = set(re.findall(r'(?:note|_log)\(\s*"([a-z]+(?:_[a-z]+)+)"', source))
    assert len(events) > 40
    docs = "".join(path.read_text() for path in (GATEWAY.parent / "docs").glob("*.md"))
    known = {event for event in events | EVENT_LEVELS.keys() if f"`{event}`" in docs}
    assert events | EVENT_LEVELS.keys() == known


async def test_times_never_run_backwards() -> None:
    stream, times = io.StringIO(), iter([5.0, 3.0, 4.0, 6.0])
    event_log = EventLog("text", stream, lambda: next(times))
    for _ in range(4):
        event_log.note("tick")
    event_log.flush()
    stamps = [line.split()[0] for line in stream.getvalue().splitlines()]
    assert stamps == [iso(5000), iso(5000), iso(5000), iso(6000)]


def test_a_line_about_lost_lines_is_no_newer_than_those_to_come(
    pipe: tuple[int, io.TextIOWrapper],
) -> None:
    reads, stream = pipe
    writer = LogWriter(stream, "text", most=60)
    writer.write(f"{iso(1000)} INFO one {'x' * 20}\n")
    writer.write(f"{iso(2000)} INFO two {'x' * 20}\n")
    told = f"{iso(1000)} WARNING log_lines_dropped lines=1\n".encode()
    assert read_all(reads, told).endswith(told)
    writer.close()


def test_a_line_about_lost_lines_has_the_time_of_a_line_and_not_of_what_it_says(
    pipe: tuple[int, io.TextIOWrapper],
) -> None:
    reads, stream = pipe
    writer = LogWriter(stream, "text", most=60)
    writer.write(f"{iso(1000)} INFO reminders_scheduled earliest_due={iso(9000)}\n")
    writer.write(f"{iso(2000)} INFO two {'x' * 20}\n")
    told = f"{iso(1000)} WARNING log_lines_dropped lines=1\n".encode()
    assert read_all(reads, told).endswith(told)
    writer.close()


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_name_that_is_not_utf8_costs_no_line(form: str) -> None:
    """Python has such names of files, and cannot write them as UTF-8."""
    stream = io.StringIO()
    event_log = EventLog(form, stream, lambda: 0)
    event_log.note("serving", file=os.fsdecode(b"\xff.toml"))
    event_log.note("draining", live=0)
    event_log.flush()
    written = stream.getvalue().encode().splitlines()
    assert len(written) == 2
    assert b".toml" in written[0]


@pytest.mark.parametrize(
    "form, told",
    [
        ("text", ["INFO draining live=3 instance=ab12", "INFO idle instance=ab12"]),
        (
            "json",
            ['"event":"draining","live":3,"instance":"ab12"}', '"event":"idle","instance":"ab12"}'],
        ),
    ],
)
async def test_every_line_names_the_process_where_there_are_several(
    form: str, told: list[str]
) -> None:
    written = io.StringIO()
    log = EventLog(form, written)
    log.name_instance = lambda: "ab12"
    log.note("draining", live=3)
    log.note("idle")
    log.flush()
    lines = written.getvalue().splitlines()
    assert [line.partition("Z")[2].partition('"info",')[2] or line[25:] for line in lines] == told


WRITE_MANY = """
import sys
from gateway.logs import LogWriter
writer = LogWriter(sys.stdout, "text", shared=True)
writer.write((sys.argv[1] * 700 + "\\n") * 300)
writer.close(60)
"""


def test_lines_of_processes_that_write_to_one_pipe_stay_whole() -> None:
    """What a pipe takes as one piece is bounded, and the lines of a busy moment are more."""
    reads, writes = os.pipe()
    letters = "abc"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITE_MANY, letter], stdout=writes, cwd=ROOT)
        for letter in letters
    ]
    os.close(writes)
    with os.fdopen(reads) as stream:
        found = stream.readlines()
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert sorted(found) == sorted(f"{letter * 700}\n" for letter in letters for _ in range(300))
