"""One question to one server: what is believed of the answer, over real sockets."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.clock.sntp import (
    Address,
    Kissed,
    NoTime,
    OffsetSample,
    judge,
    query,
    read_server,
    resolve,
)
from gateway.clock.system import Host

from .sntp import Behaviour, FakeServer, Told, never, serving, timestamp, well

MAX_OFFSET_MS = 600_000
LIMIT_S = 5.0
SHORT_S = 0.05


def ask(server: str, limit_s: float = LIMIT_S, host: Host | None = None) -> OffsetSample:
    reply = query(server, limit_s, host or Host(), resolve)
    return judge(server, reply, MAX_OFFSET_MS)


def says(answer: OffsetSample, ms: float) -> bool:
    # What is not known of the way there and back is all that an answer may be wrong by.
    return abs(answer.offset_ms - ms) <= answer.rtt_ms / 2 + 2


@pytest.mark.parametrize("off_s", [0, 5, -5, 599, -599, 0.25])
def test_the_offset_is_what_the_host_lacks(off_s: float) -> None:
    with serving(well(off_s=off_s)) as (server,):
        answer = ask(server.name)
    assert answer.server == server.name
    assert says(answer, off_s * 1000)


def test_the_way_does_not_count_as_offset() -> None:
    with serving(well(off_s=5, far_s=0.2)) as (server,):
        answer = ask(server.name)
    assert says(answer, 5000)
    assert answer.rtt_ms >= 199


def test_the_question_tells_nothing_about_the_host() -> None:
    with serving(well()) as (server,):
        ask(server.name)
        ask(server.name)
    first, second = server.questions
    assert first[:40] == second[:40] == bytes([4 << 3 | 3]) + bytes(39)
    assert first[40:] != second[40:]
    assert len(first) == 48


def shifted(instant: float) -> Host:
    began = time.time()
    return Host(wall=lambda: instant + time.time() - began)


BEGINNING_OF_AN_ERA = 2**32 - 2_208_988_800


@pytest.mark.parametrize("server_s", [-300, 0, 300])
@pytest.mark.parametrize("host_s", [-1000, 1000, 100_000_000])
def test_the_year_2036_changes_nothing(host_s: int, server_s: int) -> None:
    host = shifted(BEGINNING_OF_AN_ERA + host_s)
    with serving(well(Told(off_s=server_s, wall=host.wall))) as (server,):
        assert says(ask(server.name, host=host), server_s * 1000)


BAD: dict[str, tuple[Told, str]] = {
    "a client": (Told(mode=3), "mode 3"),
    "a broadcast": (Told(mode=5), "mode 5"),
    "nothing": (Told(mode=0), "mode 0"),
    "not set, by stratum": (Told(stratum=16), "stratum 16"),
    "reserved stratum": (Told(stratum=255), "stratum 255"),
    "not set, by leap": (Told(leap=3), "leap 3"),
    "kiss of death": (Told(stratum=0, leap=3, reference=b"DENY"), r"not to be queried \(DENY\)"),
    "kiss with rubbish": (Told(stratum=0, reference=b"\xff\n[]"), r"not to be queried \(no reason"),
    "no time received": (Told(received=bytes(8)), "no time"),
    "no time sent": (Told(sent=bytes(8)), "no time"),
    "too far ahead": (Told(off_s=601), r"\+60\d{4} ms away"),
    "too far behind": (Told(off_s=-601), r"-60\d{4} ms away"),
    "sent before received": (Told(sent=timestamp(time.time() - 100)), "not possible"),
    "received long ago": (Told(received=timestamp(time.time() - 100)), "not possible"),
    "the end of an era": (Told(received=b"\xff" * 8, sent=b"\xff" * 8), "away"),
}


@pytest.mark.parametrize("told, sentence", BAD.values(), ids=BAD)
def test_what_cannot_be_believed_is_refused_at_once(told: Told, sentence: str) -> None:
    with serving(well(told)) as (server,), pytest.raises(NoTime, match=sentence):
        ask(server.name)


def test_any_leap_second_to_come_is_no_flaw() -> None:
    with serving(well(Told(leap=1)), well(Told(leap=2))) as servers:
        for server in servers:
            assert says(ask(server.name), 0)


def test_only_a_server_can_ask_to_be_left_alone() -> None:
    with serving(well(Told(stratum=0)), well(Told(stratum=0, mode=3))) as (server, stranger):
        with pytest.raises(Kissed):
            ask(server.name)
        with pytest.raises(NoTime) as caught:
            ask(stranger.name)
    assert not isinstance(caught.value, Kissed)


STRAY: dict[str, Behaviour] = {
    "another origin": well(Told(origin=b"whatever")),
    "no origin": well(Told(origin=bytes(8))),
    "nothing in it": lambda _: [b""],
    "too short": lambda question: [Told().answer(question)[:20]],
    "garbage": lambda _: [b"\xa5" * 48],
    "an echo": lambda question: [question],
    "very long": lambda _: [b"x" * 60_000],
    "a flood": lambda _: [b"stray"] * 100,
}


@pytest.mark.parametrize("stray", STRAY.values(), ids=STRAY)
def test_what_does_not_repeat_our_token_is_no_answer(stray: Behaviour) -> None:
    with serving(stray) as (server,), pytest.raises(NoTime, match="does not match"):
        ask(server.name, SHORT_S)


@pytest.mark.parametrize("stray", STRAY.values(), ids=STRAY)
def test_and_does_not_keep_the_answer_from_being_heard(stray: Behaviour) -> None:
    honest = Told(off_s=7)
    with serving(lambda question: [*stray(question), honest.answer(question)]) as (server,):
        assert says(ask(server.name), 7000)


def test_an_answer_cut_after_our_token_is_refused() -> None:
    with serving(lambda question: [Told().answer(question)[:40]]) as (server,):
        with pytest.raises(NoTime, match="cannot be read"):
            ask(server.name)


def test_nobody_else_can_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:

        def behaviour(question: bytes) -> list[bytes]:
            # From another port, and first: the kernel does not even let it in.
            stranger.sendto(Told(off_s=300).answer(question), server.clients[-1])
            return [Told(off_s=1).answer(question)]

        with serving(behaviour) as servers:
            server: FakeServer = servers[0]
            assert says(ask(server.name), 1000)


def test_silence_ends_at_the_limit() -> None:
    with serving(never) as (server,):
        with pytest.raises(NoTime, match="no answer within 50 ms"):
            ask(server.name, SHORT_S)
    assert len(server.questions) == 1


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_closed_port_is_noticed_at_once() -> None:
    with pytest.raises(NoTime, match="cannot be reached: connection refused"):
        ask(f"127.0.0.1:{free_port()}")


def test_the_next_address_is_tried_when_one_cannot_be_reached() -> None:
    with serving(well()) as (server,):
        port = server.socket.getsockname()[1]
        closed, good = ("127.0.0.1", free_port()), ("127.0.0.1", port)
        reply = query(
            "two.test", LIMIT_S, Host(), lambda *_: [(socket.AF_INET, a) for a in (closed, good)]
        )
    assert says(judge("two.test", reply, MAX_OFFSET_MS), 0)


@pytest.mark.parametrize("name", ["", " ", "a" * 300, "a\0b", "é" * 80])
def test_a_name_that_cannot_be_is_a_sentence(name: str) -> None:
    with pytest.raises(NoTime):
        ask(name)


def unknown(*_: object) -> list[Address]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_name_that_nobody_knows_is_a_sentence() -> None:
    with pytest.raises(NoTime, match="cannot be looked up"):
        query("unknown.test", LIMIT_S, Host(), unknown)


def test_a_name_without_address_is_a_sentence() -> None:
    with pytest.raises(NoTime, match="no address"):
        query("none.test", LIMIT_S, Host(), lambda *_: [])


def test_a_step_of_the_host_while_waiting_spoils_the_answer() -> None:
    walls = iter([1000.0, 4600.0])
    told = Told(wall=lambda: 1000.0)
    with serving(well(told)) as (server,), pytest.raises(NoTime, match="not possible"):
        ask(server.name, host=Host(wall=lambda: next(walls)))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("time.example", ("time.example", 123)),
        (" time.example ", ("time.example", 123)),
        ("time.example:1123", ("time.example", 1123)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("::1", ("::1", 123)),
        ("[::1]", ("::1", 123)),
        ("[2001:db8::1]:99", ("2001:db8::1", 99)),
    ],
)
def test_a_server_is_a_host_and_perhaps_a_port(text: str, expected: tuple[str, int]) -> None:
    assert read_server(text) == expected


@pytest.mark.parametrize("port", ["0", "65536", "ntp", "-1", "12²", "99999999999999999999"])
def test_no_other_port_exists(port: str) -> None:
    for text in (f"time.example:{port}", f"[::1]:{port}"):
        with pytest.raises(NoTime, match="must be a host or host:port"):
            read_server(text)


@dataclass
class Parrot:
    """Says anything, to whatever it was asked."""

    words: bytes = b""

    def __call__(self, question: bytes) -> list[bytes]:
        return [self.words[:24] + question[40:48] + self.words[24:]]


honest = Told()
fields = st.fixed_dictionaries(
    {
        "leap": st.integers(0, 3),
        "mode": st.integers(0, 7),
        "stratum": st.integers(0, 255),
        "off_s": st.floats(-1e6, 1e6) | st.floats(-10, 10),
    }
)


def test_no_packet_does_harm() -> None:
    parrot = Parrot()

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=60))
    def check(words: bytes) -> None:
        parrot.words = words.ljust(24, b"\0")
        with suppress(NoTime):
            assert abs(ask(server.name).offset_ms) <= MAX_OFFSET_MS

    with serving(parrot) as (server,):
        check()


def test_only_the_sound_are_believed() -> None:
    told = honest

    @given(fields)
    def check(how: dict[str, float]) -> None:
        nonlocal told
        told = replace(honest, **how)  # type: ignore[arg-type]
        sound = told.mode == 4 and 1 <= told.stratum <= 15 and told.leap != 3
        if sound and abs(told.off_s) < 599:
            assert says(ask(server.name), told.off_s * 1000)
        elif not sound or abs(told.off_s) > 601:
            with pytest.raises(NoTime):
                ask(server.name)

    with serving(lambda question: [told.answer(question)]) as (server,):
        check()
