"""Clients whose answers are held open: whether each was promised something, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, time

import anyio
import msgspec
from anyio.abc import TaskGroup

from bench.processes import Address, ProcessFailed
from bench.reminding import PROMISE
from bench.scenarios import BODY_BYTES
from bench.users import Order, Tally, User

# Behind the last word of what is promised the answer is held open.
HELD = b'"content":"%b "' % PROMISE.split()[-1].encode()
DONE = b"data: [DONE]"
AT_ONCE = 32
PORTS_OF_ONE = 20_000
LOOK_S = 0.005
STUCK_S = 60.0

_chunk = msgspec.json.Decoder(dict[str, object])


@dataclass(slots=True)
class Turnout(Tally):
    """What all holding users have seen together; times are on the wall clock."""

    held: int = 0
    ended_at: list[float] = field(default_factory=list)


class HoldingUser(User):
    """Asks once, for a reminder, and stays until the answer ends."""

    tally: Turnout

    def __init__(self, order: Order, tally: Turnout) -> None:
        super().__init__(order, tally)
        self.body = b""
        self._is_held = self._has_ended = False

    def _wants_more(self) -> bool:
        return not self._has_ended

    def _go_on(self) -> None:
        self._has_ended = True
        self._transport.close()

    def _fail(self, sentence: str) -> None:
        self._has_ended = True
        super()._fail(sentence)

    def on_body(self, body: bytes) -> None:
        self.body += body
        if not self._is_held and HELD in self.body:
            self._is_held = True
            self.tally.held += 1

    def _problem(self) -> str | None:
        self.tally.ended_at.append(time())
        return flaw(self.body) if self._is_held else "nothing was promised"


def flaw(stream: bytes) -> str | None:
    """Say what is wrong with a stream that was held; a good one ends once, and as it should."""
    frames = stream.split(b"\n\n")
    datas = [frame for frame in frames if frame.startswith(b"data: ")]
    if frames[-1] or not datas or datas[-1] != DONE:
        return "the stream ended without [DONE]"
    try:
        chunks = [_chunk.decode(data.removeprefix(b"data: ")) for data in datas[:-1]]
    except msgspec.DecodeError as error:
        return f"an event is not JSON: {error}"
    ends = [reason for chunk in chunks if (reason := finish_of(chunk)) is not None]
    return None if ends == ["stop"] else f"the stream ended for the reasons {ends}"


def finish_of(chunk: dict[str, object]) -> str | None:
    """Return the finish reason of a chunk, if it has one."""
    found = msgspec.convert(chunk, Ending)
    return next((choice.finish_reason for choice in found.choices), None)


class Choice(msgspec.Struct):
    """A chunk's choice, as far as it tells of an end."""

    finish_reason: str | None = None


class Ending(msgspec.Struct):
    """A chunk, as far as it tells of an end."""

    choices: list[Choice] = []


def wish(gateway: Address, due_at: str) -> Order:
    """Write a request of 2 KB that asks the model for a reminder at an instant."""
    asked = {"role": "user", "content": f"Remind me at {due_at} to drink tea."}
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer bench\r\n"
        f"content-type: application/json\r\ncontent-length: {BODY_BYTES}"
    )
    return Order(gateway.host, gateway.port, head.encode() + b"\r\n\r\n" + filled(asked))


def filled(asked: dict[str, str]) -> bytes:
    """Return a body that is filled up with an earlier turn of the conversation."""

    def body(earlier: str) -> bytes:
        system = {"role": "system", "content": "You are being measured."}
        before = {"role": "assistant", "content": earlier}
        messages = [system, {"role": "user", "content": "Tell me something."}, before, asked]
        return msgspec.json.encode({"model": "m", "stream": True, "messages": messages})

    return body(("A sentence of an earlier answer. " * 100)[: BODY_BYTES - len(body(""))])


class Crowd:
    """Many holding users, each with a session of its own."""

    def __init__(self, order: Order, size: int) -> None:
        self.turnout = Turnout()
        self.users = [HoldingUser(member(order, n), self.turnout) for n in range(size)]

    def __len__(self) -> int:
        return len(self.users)

    async def assemble(self, tasks: TaskGroup) -> None:
        """Have all of them ask, a few at a time, until all are held."""
        for begun in range(0, len(self), AT_ONCE):
            await self._held(begun - AT_ONCE)
            for user in self.users[begun : begun + AT_ONCE]:
                tasks.start_soon(user.run)
        await self._held(len(self))

    async def _held(self, count: int) -> None:
        await self.until(lambda: self.turnout.held >= count, STUCK_S, "held")

    async def end(self, limit_s: float) -> None:
        """Wait until all answers have ended."""
        await self.until(lambda: len(self.turnout.ended_at) == len(self), limit_s, "ended")

    async def until(self, fact: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait for a fact, unless something failed."""
        deadline = monotonic() + limit_s
        while not fact() and not self.turnout.errors:
            await anyio.sleep(LOOK_S)
            if monotonic() > deadline:
                raise ProcessFailed(f"Not all {len(self)} were {what} within {limit_s:.0f} s.")


def member(order: Order, number: int) -> Order:
    """Give each user a session of its own, and an address that has ports left."""
    head, gap, body = order.request.partition(b"\r\n\r\n")
    session = b"\r\nx-session-id: held-%d" % number
    source = f"127.0.0.{1 + number // PORTS_OF_ONE}" if number >= PORTS_OF_ONE else ""
    return replace(order, request=head + session + gap + body, seed=number, source=source)


def latest(times: Sequence[float], since: float) -> float:
    """Return how long after an instant the last of some times was."""
    return max(times, default=since) - since
