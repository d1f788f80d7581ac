"""Users take whole answers only, and note every other one as an error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.load import Job, Sample, Watch, drive, personal
from bench.scenarios import BODY_BYTES, QUICK, SCENARIOS, body_of, request
from bench.users import Order

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
FRAME = b"9\r\ndata: 1\n\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}"


async def load(
    user: str,
    answer: bytes,
    hangs_up: bool = False,
    frames: int = 0,
    leave_after: int = 0,
    think_s: float = 0.0,
) -> Sample:
    """Let two users ask a server that always gives the same answer, or hangs up after it."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with hanging_up(writer):
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                if hangs_up:
                    return

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        asked = Order(
            host, port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", frames, leave_after, think_s
        )
        return await drive(Job(user, 2, asked, 0.02, 0.05, 0.0, Watch()))


@contextmanager
def hanging_up(writer: asyncio.StreamWriter) -> Iterator[None]:
    try:
        yield
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@pytest.mark.parametrize(
    "user, answer", [("json", WHOLE), ("chat", HEAD + FRAME + DONE), ("chat", HEAD + DONE)]
)
async def test_whole_answers_are_counted(user: str, answer: bytes) -> None:
    sample = await load(user, answer)
    assert sample.errors == ()
    assert sample.counts.requests > 0
    assert sample.counts.events == sample.counts.requests * answer.count(b"data:")


async def test_thinking_comes_between_answer_and_question() -> None:
    hasty = await load("json", WHOLE)
    thoughtful = await load("json", WHOLE, think_s=0.05)
    assert thoughtful.errors == ()
    assert thoughtful.counts.requests < hasty.counts.requests


@pytest.mark.parametrize(
    "user, answer, error",
    [
        ("json", BUSY, "answered 429"),
        ("json", EMPTY, "the answer is empty"),
        ("json", b"what\r\n\r\n", "cannot be read"),
        ("chat", BUSY, "answered 429"),
        ("chat", HEAD + FRAME + b"0\r\n\r\n", "ended without"),
        ("chat", HEAD + DONE, "1 frames came of 2"),
    ],
)
async def test_everything_else_is_an_error(user: str, answer: bytes, error: str) -> None:
    sample = await load(user, answer, frames=2)
    assert sample.error_count == 2
    assert all(error in told for told in sample.errors)


@pytest.mark.parametrize("user, answer", [("json", WHOLE[:-1]), ("chat", HEAD + FRAME)])
async def test_half_an_answer_is_an_error(user: str, answer: bytes) -> None:
    sample = await load(user, answer, hangs_up=True)
    assert sample.error_count == 2
    assert all("broke off in the middle" in told for told in sample.errors)


async def test_leaving_is_no_error() -> None:
    sample = await load("leaving", HEAD + FRAME * 5, leave_after=3)
    assert sample.errors == ()
    assert sample.counts.left > 0
    assert sample.counts.requests == 0


async def test_a_silent_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.load.DRAIN_S", 0.1)
    sample = await load("chat", HEAD + FRAME)
    assert sample.errors == ("an answer never ended",) * 2


async def test_nobody_there_is_an_error() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    server.close()
    sample = await drive(Job("json", 2, Order(host, port, b""), 0.0, 0.01, 0.0, Watch()))
    assert sample.error_count == 2


def test_each_user_has_its_own_session() -> None:
    order = personal(Order("h", 1, b"GET / HTTP/1.1\r\nhost: x\r\n\r\nbody"), 7)
    assert order.request == b"GET / HTTP/1.1\r\nhost: x\r\nx-session-id: bench-7\r\n\r\nbody"


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_body_has_the_same_size(name: str) -> None:
    assert len(body_of(SCENARIOS[name], QUICK)) == BODY_BYTES
    assert f"content-length: {BODY_BYTES}".encode() in request(SCENARIOS[name], QUICK)
