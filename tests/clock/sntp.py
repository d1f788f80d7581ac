"""Time servers on loopback that answer as they are told."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

NTP_EPOCH = 2_208_988_800


def timestamp(at: float) -> bytes:
    """Write an instant as it stands in a packet: its era is not in there."""
    whole, part = divmod(round((at + NTP_EPOCH) * 2**32), 2**32)
    return struct.pack("!II", whole % 2**32, part)


@dataclass(frozen=True, slots=True)
class Told:
    """How a server answers; by default, well and with the right time."""

    off_s: float = 0.0
    far_s: float = 0.0
    wall: Callable[[], float] = time.time
    leap: int = 0
    mode: int = 4
    stratum: int = 2
    reference: bytes = b"TEST"
    origin: bytes | None = None
    received: bytes | None = None
    sent: bytes | None = None

    def answer(self, question: bytes) -> bytes:
        """Write the answer to a question, as if it came from afar."""
        time.sleep(self.far_s / 2)
        now = timestamp(self.wall() + self.off_s)
        head = struct.pack("!BBbb", self.leap << 6 | 4 << 3 | self.mode, self.stratum, 6, -20)
        origin = question[40:48] if self.origin is None else self.origin
        times = timestamp(0), origin, self.received or now, self.sent or now
        time.sleep(self.far_s / 2)
        return head + bytes(8) + self.reference + b"".join(times)


Behaviour = Callable[[bytes], list[bytes]]


def well(told: Told | None = None, /, **how: float) -> Behaviour:
    """Answer each question once."""
    told = told or Told(**how)  # type: ignore[arg-type]
    return lambda question: [told.answer(question)]


def never(_: bytes) -> list[bytes]:
    """Answer nothing."""
    return []


@dataclass
class FakeServer:
    """A socket that answers, what it was asked, and from where."""

    behaviour: Behaviour
    questions: list[bytes] = field(default_factory=list)
    clients: list[tuple[str, int]] = field(default_factory=list)
    socket: socket.socket = field(
        default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )
    _stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.socket.bind(("127.0.0.1", 0))
        self.name = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def serve(self) -> None:
        """Answer until stopped."""
        while True:
            question, client = self.socket.recvfrom(1024)
            if self._stopped.is_set():
                return
            self.clients.append(client)
            self.questions.append(question)
            for answer in self.behaviour(question):
                self.socket.sendto(answer, client)

    def stop(self) -> None:
        """End, also while waiting for a question."""
        self._stopped.set()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self.socket.getsockname())


@contextmanager
def serving(*behaviours: Behaviour) -> Iterator[tuple[FakeServer, ...]]:
    """Run a server for each behaviour."""
    servers = tuple(FakeServer(behaviour) for behaviour in behaviours)
    threads = [Thread(target=server.serve, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield servers
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.stop()
            thread.join()
            server.socket.close()
