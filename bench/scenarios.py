"""What is asked of every target: how many users, which answers, at what pace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec

from bench.dialects import CHAT, USUAL_SPEECH, Dialect, Speech, Talk

BODY_BYTES = 2048
DRAIN_TOKENS = 10


@dataclass(frozen=True, slots=True)
class Length:
    """How long one load lasts: a warm-up, then the steady part that is measured."""

    warm_s: float
    measure_s: float

    @property
    def total_s(self) -> float:
        return self.warm_s + self.measure_s


FULL = Length(warm_s=1.5, measure_s=4.0)
QUICK = Length(warm_s=0.8, measure_s=1.2)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of load; `unit` names what its CPU time is divided by."""

    name: str
    title: str
    user: str
    unit: str
    users: int
    tokens: int = 0
    delay_ms: int = 0
    write_bytes: int = 0
    """How much is written at once in Chat Completions; in other dialects, as many events."""
    leave_after: int = 0
    think_s: float = 0.0

    def tokens_for(self, length: Length) -> int:
        """Return the answer's length; without one set, streams outlast the steady part."""
        if self.tokens:
            return self.tokens
        return math.ceil(length.total_s * 1000 / self.delay_ms) + DRAIN_TOKENS

    def script(self, length: Length, dialect: Dialect = CHAT) -> str:
        """Return the line that tells an upstream of this dialect what to answer."""
        line = f"demo: tokens={self.tokens_for(length)} delay_ms={self.delay_ms}"
        split = self.write_bytes * dialect.event_bytes // CHAT.event_bytes
        return f"{line} split={split}" if split else line

    def spread_s(self, length: Length) -> float:
        """Return the time over which users start, so that they do not march in step."""
        return length.warm_s * 0.6 if self.delay_ms else 0.0


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("json", "whole answers", "json", "requests", users=32, tokens=40),
        Scenario("pace", "token pace", "chat", "events", users=200, delay_ms=40),
        # About an event a write, as servers send them that do not wait: reads hold a few of them.
        Scenario("burst", "burst", "chat", "events", users=8, tokens=4000, write_bytes=288),
        Scenario("flood", "flood", "chat", "events", users=8, tokens=4000, write_bytes=12288),
        # Without thinking, users who are answered together ask together: a queue the load makes.
        Scenario(
            "first", "first event", "chat", "events", 150, tokens=25, delay_ms=40, think_s=0.4
        ),
        Scenario(
            "leave", "leaving", "leaving", "left", users=32, tokens=50, delay_ms=5, leave_after=10
        ),
    )
}
USUAL = ("json", "pace", "burst", "first")
LANES = ("json", "pace", "burst")


def request(scenario: Scenario, length: Length, speech: Speech = USUAL_SPEECH) -> bytes:
    """Return the bytes of one request: a talk of 2 KB whose last line scripts the upstream."""
    body = body_of(scenario, length, speech)
    head = (
        f"POST {speech.client.path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer bench\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}"
    )
    return head.encode() + b"\r\n\r\n" + body


def body_of(scenario: Scenario, length: Length, speech: Speech = USUAL_SPEECH) -> bytes:
    """Return the request's body, filled up with an earlier turn of the conversation."""
    asked = scenario.script(length, speech.upstream)
    talk = Talk(speech.model, scenario.user != "json", "", asked)
    short = msgspec.json.encode(speech.client.body(talk))
    filler = ("A sentence of an earlier answer. " * 100)[: BODY_BYTES - len(short)]
    return msgspec.json.encode(speech.client.body(replace(talk, earlier=filler)))
