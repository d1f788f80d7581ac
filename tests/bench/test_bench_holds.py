"""Holds: users who judge a held answer, the model that reminds, and the report; no time asserted."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import replace
from pathlib import Path
from time import time

import msgspec
import pytest

from bench.__main__ import main, parser
from bench.holding import Crowd, flaw, latest, member, wish
from bench.holds import QUICK_HOLDS, Drained, Woken
from bench.holds_report import HoldsRun, document, figures, judged, markdown, text
from bench.load import Counts, Sample
from bench.processes import Address, ProcessFailed, allow_descriptors, resident_bytes
from bench.reminding import GREETS, PROMISE, PROMISES, Model, frame, scheduling, stream
from bench.reminding import Counts as ModelRequest
from bench.scenarios import BODY_BYTES, Length
from bench.users import Order

GATE = Address("127.0.0.1", 1)
HOLDING = frame({"content": PROMISE.split()[-1] + " "})
WORD, END, DONE = frame({"content": "Hi"}), frame({}, "stop"), b"data: [DONE]\n\n"
GOOD = WORD + HOLDING + WORD + END + DONE


# What a good answer is.


@pytest.mark.parametrize("beats", [b"", frame({}), b": wait\n"])
def test_an_answer_that_ends_once_is_good(beats: bytes) -> None:
    assert flaw(beats + GOOD) is None


@pytest.mark.parametrize(
    "answer, says",
    [
        (b"", "without [DONE]"),
        (GOOD.removesuffix(DONE), "without [DONE]"),
        (GOOD.removesuffix(b"\n"), "without [DONE]"),
        (GOOD + WORD, "without [DONE]"),
        (WORD + DONE, "for the reasons []"),
        (WORD + END + END + DONE, "for the reasons ['stop', 'stop']"),
        (b'data: {"choices"\n\n' + END + DONE, "not JSON"),
    ],
)
def test_any_other_is_not(answer: bytes, says: str) -> None:
    assert says in (flaw(answer) or "")


# Users.


def test_each_has_a_session_and_asks_for_the_same_instant() -> None:
    order = wish(GATE, "2026-01-01T00:00:00.000Z")
    head, _, body = member(order, 7).request.partition(b"\r\n\r\n")
    assert len(body) == BODY_BYTES
    assert b"x-session-id: held-7" in head
    assert b"Remind me at 2026-01-01T00:00:00.000Z" in body


def test_more_than_one_address_has_ports_for_come_from_several() -> None:
    order = Order("127.0.0.1", 1, b"\r\n\r\n")
    assert [member(order, n).source for n in (0, 19_999, 20_000, 45_000)] == [
        "",
        "",
        "127.0.0.2",
        "127.0.0.3",
    ]


async def crowd_of(answers: list[list[bytes]]) -> Crowd:
    """Let as many users as there are answers ask a server that gives each its own, in pieces."""
    left = list(answers)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(BODY_BYTES)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in left.pop(0):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0.01)
        writer.write(b"0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        crowd = Crowd(wish(Address(host, port), "2026-01-01T00:00:00.000Z"), len(answers))
        async with asyncio.TaskGroup() as tasks:
            for user in crowd.users:
                tasks.create_task(user.run())
    return crowd


async def test_that_they_are_held_and_when_they_are_answered_is_noted() -> None:
    began = time()
    pieces = [WORD, HOLDING, frame({}), WORD, END + DONE]
    turnout = (await crowd_of([pieces] * 3)).turnout
    assert turnout.errors == []
    assert (turnout.held, len(turnout.ended_at)) == (3, 3)
    assert latest(turnout.ended_at, began) > 0


@pytest.mark.parametrize(
    "pieces, says",
    [([WORD, END + DONE], "nothing was promised"), ([HOLDING, WORD, DONE], "reasons []")],
)
async def test_what_is_not_as_it_should_be_is_an_error(pieces: list[bytes], says: str) -> None:
    turnout = (await crowd_of([pieces])).turnout
    assert len(turnout.errors) == 1
    assert says in turnout.errors[0]


# The model.


class Written(asyncio.Transport):
    """Where a model writes."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.answers = asyncio.Semaphore(0)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data
        self.answers.release()


async def asked(counts: ModelRequest, *bodies: bytes, think_s: float = 0.0) -> bytes:
    """Ask a model on one connection, and return what it answered."""
    model, written = Model(counts, think_s), Written()
    model.connection_made(written)
    for body in bodies:
        model.data_received(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    for _ in bodies:
        await written.answers.acquire()
    return written.data


async def test_it_calls_the_clock_promises_announces_and_greets() -> None:
    counts = ModelRequest()
    wishes = b"Remind me at 2026-01-01T00:00:00.000Z to drink tea."
    assert await asked(counts, wishes) == scheduling("2026-01-01T00:00:00.000Z")
    assert await asked(counts, wishes + b'{"role":"tool"}') == PROMISES
    assert await asked(counts, b"Hello") == GREETS
    assert b"time" in await asked(counts, b"[Clock Reminder]: scheduled tasks are due.")
    assert counts == ModelRequest(wishes=1, follow_ups=1, under_way=0, most_at_once=1)


async def test_it_counts_how_many_follow_ups_wait_at_once() -> None:
    counts = ModelRequest()
    due = b"[Clock Reminder]: scheduled tasks are due."
    await asyncio.gather(*(asked(counts, due, think_s=0.01) for _ in range(5)))
    assert (counts.follow_ups, counts.under_way, counts.most_at_once) == (5, 0, 5)


def test_a_stream_of_the_model_is_one_that_users_take() -> None:
    body = stream([{"content": "Hi"}], "stop").partition(b"\r\n\r\n")[2]
    assert body.count(b"data: ") == 4
    assert body.endswith(b"0\r\n\r\n")


# The processes.


def test_too_few_files_are_told_before_anything_is_started() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    allow_descriptors(100)
    if hard != resource.RLIM_INFINITY:
        with pytest.raises(ProcessFailed, match=f"{hard} are allowed at most"):
            allow_descriptors(hard + 1)


def test_the_memory_of_a_process_is_read() -> None:
    assert resident_bytes(1) > 0


# The report.

SAMPLE = Sample(Counts(seconds=1.0), {"p50": 1.0, "p95": 1.5, "p99": 2.0}, {})
DRAINED = Drained(
    opened_s=2.0,
    idle_bytes=50_000_000,
    held_bytes=50_000_000 + 1000 * 20 * 1024,
    quiet=Counts(seconds=10.0, gateway_ns=40_000_000, cores_ns=40_000_000),
    before=SAMPLE,
    during=replace(SAMPLE, first_ms={"p50": 1.0, "p95": 2.0, "p99": 5.0}),
    ended=1000,
    ended_s=0.5,
    exit_s=1.0,
    exit_status=0,
    errors=(),
)
WOKEN = Woken(1000, 1.5, 1000, 4.0, follow_ups=1000, most_at_once=64, errors=())
RUN = HoldsRun("python -m bench holds", "today", {"kernel": "K"}, QUICK_HOLDS, DRAINED, WOKEN)


def test_figures_are_of_one_connection_and_of_ten_thousand() -> None:
    found = figures(RUN)
    assert found["kb_each"] == 20
    assert found["cpu_percent"] == pytest.approx(4.0)
    assert found["new_ratio"] == 2.5
    assert found["opened_per_s"] == 500


def test_goals_are_judged() -> None:
    met = {outcome.goal.figure: outcome.met for outcome in judged(RUN)}
    assert met.pop("left_s") is False
    assert all(met.values())
    assert len(met) == 5


def test_every_way_of_telling_tells_the_same() -> None:
    for told in (text(RUN), markdown(RUN), document(RUN).decode()):
        assert "20" in told
    assert "NOT MET" in text(RUN)
    assert msgspec.json.decode(document(RUN))["plan"]["held"] == 1000
    assert "Other processes" not in text(RUN)
    disturbed = replace(DRAINED, quiet=replace(DRAINED.quiet, cores_ns=5_000_000_000))
    assert "Other processes" in text(replace(RUN, drained=disturbed))


@pytest.mark.parametrize(
    "drained, woken, says",
    [
        (replace(DRAINED, ended=999), WOKEN, "999 of 1,000 were ended by SIGTERM"),
        (replace(DRAINED, exit_status=1), WOKEN, "ended with 1"),
        (DRAINED, replace(WOKEN, left=1), "1 of 1,000 were let go"),
        (DRAINED, replace(WOKEN, follow_ups=1001), "1,001 of 1,000 follow-ups"),
        (DRAINED, replace(WOKEN, errors=("it broke",)), "it broke"),
    ],
)
def test_what_must_not_be_is_an_error(drained: Drained, woken: Woken, says: str) -> None:
    assert RUN.errors == []
    (told,) = replace(RUN, drained=drained, woken=woken).errors
    assert says in told


# The command.


def test_a_run_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = replace(QUICK_HOLDS, quiet_s=0.1, newcomers=Length(warm_s=0.05, measure_s=0.3))
    monkeypatch.setattr("bench.__main__.QUICK_HOLDS", tiny)
    files = ["--json", str(tmp_path / "run.json"), "--markdown", str(tmp_path / "run.md")]
    results = tmp_path / "benchmarks"
    monkeypatch.setattr("bench.__main__.RESULTS", results)
    words = ["holds", "--quick", "--held", "20", "--store", "memory:", "--write", *files]
    assert main(words) == 0
    assert "20 held" in capsys.readouterr().out
    run = msgspec.json.decode((tmp_path / "run.json").read_bytes(), type=HoldsRun)
    assert run.command == "python -m bench holds --held 20 --quick --store memory:"
    assert run.woken.follow_ups == run.drained.ended == 20
    assert str(tmp_path) not in (tmp_path / "run.md").read_text()
    assert sorted(path.name for path in results.iterdir()) == ["holds.json", "holds.md"]
    assert (results / "holds.md").read_text() == (tmp_path / "run.md").read_text()


def test_more_than_can_be_opened_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["holds", "--held", "2000000000"]) == 1
    assert "open files are needed" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["holds", "--held", "0"], ["holds", "--held", "many"]])
def test_what_is_not_known_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words)
