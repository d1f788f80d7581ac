"""One question to one time server, whether its answer can be believed, and which of several.

ntplib knows the packet and the arithmetic. Its own client takes any packet from the server's
address for the answer and may wait for ever, so the socket is ours.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ntplib

from gateway.clock.system import Host

STEP_MS = 1000
"""A larger correction needs two servers; two agree that differ by no more than this."""
PORT = 123
CLIENT, SERVER = 3, 4
LEAP_UNKNOWN = 3
UNSYNCHRONISED = 16
ERA_S = 2**32
ORIGIN = slice(24, 32)
TRANSMIT_AT = 40
# What clocks that tick coarsely, or are slewed, may make a round trip differ from its length.
DELAY_SLACK_S = 0.02

REQUEST_HEAD: bytes = ntplib.NTPPacket(version=4, mode=CLIENT).to_data()[:TRANSMIT_AT]

Address = tuple[int, tuple[Any, ...]]
Resolve = Callable[[str, int], list[Address]]


class NoTime(Exception):
    """A server gave no time that can be used; says why."""


class Kissed(NoTime):
    """The server asks not to be queried."""


@dataclass(frozen=True, slots=True)
class OffsetSample:
    """What one server says that has to be added to the host's time, and how far away it is."""

    server: str
    offset_ms: int
    rtt_ms: float


@dataclass(frozen=True, slots=True)
class SntpReply:
    """What came back to our question, and how long that took by our steady clock."""

    stats: ntplib.NTPStats
    elapsed_s: float

    @property
    def offset_ms(self) -> float:
        """What has to be added to the host's time."""
        # Timestamps begin anew in 2036; the nearest reading is meant.
        return math.remainder(self.stats.offset, ERA_S) * 1000

    @property
    def kiss(self) -> str:
        """Why the server does not answer, as far as it says so."""
        return "".join(filter(str.isalnum, self.stats.ref_id.to_bytes(4).decode("ascii", "ignore")))


def read_server(text: str) -> tuple[str, int]:
    """Read `host`, `host:port`, or an IPv6 address, with a port only in brackets."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
    if not host or (port and not 0 < number < 65536):
        raise NoTime("the name must be a host or host:port")
    return host, number or PORT


def resolve(host: str, port: int) -> list[Address]:
    """Look up the addresses of a host, the best first; this may take for ever."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    return [(family, address) for family, _, _, _, address in found]


def query(server: str, limit_s: float, host: Host, look_up: Resolve) -> SntpReply:
    """Ask a server, at the first of its addresses that can be reached, and wait for its reply."""
    deadline = host.steady() + limit_s
    name, port = read_server(server)
    try:
        addresses = look_up(name, port)
    except (OSError, ValueError) as error:
        raise NoTime("its name cannot be looked up") from error
    problem = "its name has no address"
    for address in addresses:
        try:
            return _ask(address, deadline, host)
        except TimeoutError as error:
            raise NoTime(silence(limit_s)) from error
        except OSError as error:
            problem = f"it cannot be reached: {os.strerror(error.errno or 0).lower()}"
    raise NoTime(problem)


def silence(limit_s: float) -> str:
    """Say that nothing came."""
    return f"no answer within {limit_s * 1000:.0f} ms"


def _ask(address: Address, deadline: float, host: Host) -> SntpReply:
    family, where = address
    # Chance instead of the time of day: only who saw the question can repeat it.
    token = secrets.token_bytes(8)
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        # Connected: nothing reaches us from anywhere else.
        sock.connect(where)
        began, sent = host.steady(), host.wall()
        sock.send(REQUEST_HEAD + token)
        packet = _answer_to(token, sock, deadline, host)
        return _read(packet, sent, host.wall(), host.steady() - began)


def _answer_to(token: bytes, sock: socket.socket, deadline: float, host: Host) -> bytes:
    heard = False
    while (left := deadline - host.steady()) > 0:
        sock.settimeout(left)
        try:
            packet = sock.recv(256)
        except TimeoutError:
            break
        if packet[ORIGIN] == token:
            return packet
        heard = True
    # What does not repeat our token may be anybody's: the server's own answer may still come.
    if heard:
        raise NoTime("its answer does not match our request")
    raise TimeoutError


def _read(packet: bytes, sent: float, received: float, elapsed_s: float) -> SntpReply:
    stats = ntplib.NTPStats()
    try:
        stats.from_data(packet)
    except ntplib.NTPException as error:
        raise NoTime("its answer cannot be read") from error
    stats.orig_timestamp = ntplib.system_to_ntp_time(sent)
    stats.dest_timestamp = ntplib.system_to_ntp_time(received)
    return SntpReply(stats, elapsed_s)


def _find_flaw(reply: SntpReply, max_offset_ms: int) -> str:
    """Say why a reply cannot be believed; nothing if it can."""
    stats, offset_ms = reply.stats, reply.offset_ms
    if stats.mode != SERVER:
        return f"it answered in mode {stats.mode}, not as a server"
    if stats.stratum >= UNSYNCHRONISED or stats.leap == LEAP_UNKNOWN:
        return f"its own clock is not set (stratum {stats.stratum}, leap {stats.leap})"
    if not (stats.recv_timestamp > 0 and stats.tx_timestamp > 0):
        return "its answer has no time"
    # Also what a step of our own clock between question and answer looks like.
    if not -DELAY_SLACK_S <= stats.delay <= reply.elapsed_s + DELAY_SLACK_S:
        return f"its answer implies a round trip of {stats.delay * 1000:.0f} ms: not possible"
    if abs(offset_ms) > max_offset_ms:
        return f"it is {offset_ms:+.0f} ms away, and no more than {max_offset_ms} ms is corrected"
    return ""


def judge(server: str, reply: SntpReply, max_offset_ms: int) -> OffsetSample:
    """Return what a reply says, or raise why it cannot be believed."""
    if reply.stats.mode == SERVER and reply.stats.stratum == 0:
        raise Kissed(f"it asks not to be queried ({reply.kiss or 'no reason given'})")
    if flaw := _find_flaw(reply, max_offset_ms):
        raise NoTime(flaw)
    return OffsetSample(server, round(reply.offset_ms), max(0.0, reply.stats.delay * 1000))


def choose(answers: Sequence[OffsetSample], offset_ms: int) -> OffsetSample | None:
    """Return the nearest server's answer that is believed while this offset is in force."""
    believed = (answer for answer in answers if _is_believed(answer, answers, offset_ms))
    return min(believed, key=lambda answer: answer.rtt_ms, default=None)


def _is_believed(answer: OffsetSample, answers: Sequence[OffsetSample], offset_ms: int) -> bool:
    if len(answers) == 1 or _is_near(answer.offset_ms, offset_ms):
        return True
    return any(
        other.server != answer.server and _is_near(answer.offset_ms, other.offset_ms)
        for other in answers
    )


def _is_near(one_ms: int, other_ms: int) -> bool:
    return abs(one_ms - other_ms) <= STEP_MS
