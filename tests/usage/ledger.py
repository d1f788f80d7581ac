"""An upstream that speaks all dialects and keeps its own ledger of the tokens it reported.

Each owner has models of their own, so that the upstream knows by the model's name who asks. What it
does is said in the message: `do:hold` and so on.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from gateway.timestamps import iso
from gateway.usage.model import UsageCounts
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.jobs.words import key, keys
from tests.pairs import chat, messages, responses
from tests.pairs.neutral import Answer as Said
from tests.pairs.neutral import Ask, Call, Tokens, Tongue, Turn
from tests.sessions.talk import JSON
from tests.wire.fake import CHUNKED, LAST, Peer, Request, chunk, sized

OWNERS = ("ann", "bob", "cid", "dot")
INCURIOUS = OWNERS[2:]
"""Those whose Chat Completions clients do not ask for the usage of streams."""
TONGUES: dict[str, Tongue] = {"chat": chat, "resp": responses, "msgs": messages}
"""By the names of the upstreams that speak them."""
DOWN = "down"
SPARE = "spare"
"""The model whose first upstream is down."""
PRICES: dict[str, dict[str, float] | None] = {
    "chat": {"input": 2.5, "cached": 0.25, "output": 10},
    "msgs": {"input": 0.15, "output": 0.6},
    "resp": None,
    SPARE: None,
}
HOLD_MS = 700
CALL = "call_of_the_clock"
UNFINISHED = ("hang", "cut")
"""Deeds of which the client sees something, and never the tokens."""

LedgerKey = tuple[str, str, str]
"""The owner, the model, the upstream."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A turn that was answered, when, and what was reported of it."""

    at: float
    key: LedgerKey
    counts: UsageCounts


@dataclass(slots=True)
class LedgerUpstream:
    """Answers as it is told, and writes down what it reported."""

    random: Random
    entries: list[Entry] = field(default_factory=list)
    _numbers: Iterable[int] = field(default_factory=lambda: count(1))

    async def story(self, peer: Peer) -> None:
        """Answer one request after the other."""
        while True:
            asked = await peer.request()
            await self._answer(peer, asked)

    async def _answer(self, peer: Peer, asked: Request) -> None:
        body = json.loads(asked.body)
        upstream = asked.headers[b"x-upstream"].decode()
        owner = body["model"].partition(".")[0]
        where = (owner, body["model"], upstream)
        tongue = TONGUES[
            next(name for name, one in TONGUES.items() if one.PATH in asked.line.decode())
        ]
        deed = re.findall(rb"do:(\w+)", asked.body)[-1].decode()
        if upstream == DOWN or deed == "refuse":
            status = "500 Down" if upstream == DOWN else "400 No"
            await peer.send(sized(tongue.error("No."), JSON, status=status))
            return
        said = self._say(deed, asked.body, tongue)
        # Before it is sent: whoever reads it may be gone before all of it is.
        self._note(where, said.tokens)
        if deed in UNFINISHED:
            pieces = tongue.stream(said)
            await peer.send(CHUNKED, *map(chunk, pieces[: len(pieces) // 2]))
            if deed == "hang":
                await peer.gone()
            raise EOFError
        if body.get("stream", False):
            await peer.send(CHUNKED, *map(chunk, tongue.stream(said)), LAST)
        else:
            await peer.send(sized(tongue.whole(said), JSON))

    def _say(self, deed: str, body: bytes, tongue: Tongue) -> Said:
        number = next(iter(self._numbers))
        tokens = None if deed in ("mute", *UNFINISHED) else self._make_tokens()
        if deed == "hold" and CALL.encode() not in body:
            due = iso(int(time.time() * 1000) + HOLD_MS)
            item = {"dueAt": due, "task": "tea", "tool": "", "arguments": "{}"}
            call = {"action": "schedule", "items": [item], "taskId": ""}
            calls = (Call(CALL, "clock", json.dumps(call)),)
            return Said(calls=calls, stop="tools", tokens=tokens)
        # No two answers are alike: else a stop message rests.
        return Said(f"This is answer {number}.", tokens=tokens)

    def _make_tokens(self) -> Tokens:
        told, said = self.random.randrange(1, 5000), self.random.randrange(1, 900)
        cached, thought = self.random.randrange(told), self.random.randrange(said)
        return Tokens(told, said, cached, thought)

    def _note(self, where: LedgerKey, tokens: Tokens | None) -> None:
        counts = UsageCounts(turns=1)
        if tokens is not None:
            numbers = (tokens.input, tokens.cached, tokens.output, tokens.reasoning)
            counts = UsageCounts(0, 1, 1, *numbers)
        self.entries.append(Entry(time.monotonic(), where, counts))

    def sum_up(self, until: float | None = None) -> dict[LedgerKey, UsageCounts]:
        """Add up what was reported, all of it or until a time."""
        total: dict[LedgerKey, UsageCounts] = defaultdict(UsageCounts)
        for entry in self.entries:
            if until is None or entry.at <= until:
                total[entry.key] += entry.counts
        return dict(total)


def settings(port: int, **more: str) -> dict[str, str]:
    """Write the configuration of a gateway whose upstreams all lead to one port."""
    dialects = {**{name: tongue.NAME for name, tongue in TONGUES.items()}, DOWN: chat.NAME}
    upstreams = [
        {
            "id": name,
            "base_url": f"http://127.0.0.1:{port}/v1",
            "dialect": dialect,
            "headers": {"x-upstream": name},
        }
        for name, dialect in dialects.items()
    ]
    routes = {**{name: [name] for name in TONGUES}, SPARE: [DOWN, "chat"]}
    models: list[dict[str, Any]] = [
        {
            "name": f"{owner}.{name}",
            "routes": [f"{upstream}/{owner}.{name}" for upstream in ways],
            **({"price": PRICES[name]} if PRICES[name] else {}),
        }
        for owner in OWNERS
        for name, ways in routes.items()
    ]
    agents = [{"id": f"agent-{owner}", "model": f"{owner}.resp"} for owner in OWNERS]
    tables = {"UPSTREAMS": upstreams, "MODELS": models, "AGENTS": agents}
    tables["KEYS"] = keys(*OWNERS, "root", admin="root")
    return {
        **{f"HOLDGATE_{name}": json.dumps(table) for name, table in tables.items()},
        "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
        "HOLDGATE_LIMITS__OFFLOAD_PROCESSES": "0",
        "ROUTECODEX_CLOCK_NTP": "off",
        **more,
    }


def asking(
    owner: str, model: str, dialect: str, deed: str, *headers: str, stream: bool, text: str = ""
) -> bytes:
    """Write a request of an owner's, in a dialect, that has something done."""
    tongue = TONGUES[dialect]
    ask = Ask((Turn("user", f"{text} do:{deed}"),), model=f"{owner}.{model}")
    silent = {"stream_options": None} if dialect == "chat" and owner in INCURIOUS else {}
    body = tongue.ask(ask, stream, **silent)
    return request("POST", tongue.PATH, JSON, key(owner), *headers, body=body)


async def fetch(port: int, data: bytes) -> Answer:
    """Send a request and read its answer to the end."""
    client = await Client.connected(port)
    try:
        await client.send(data)
        return await client.answer()
    finally:
        client.leave()


ALWAYS = "from=2020-01-01&to=2100-01-01"


async def show_usage(port: int, owner: str = "root", query: str = "") -> list[dict[str, Any]]:
    """Ask a gateway for usage."""
    answer = await fetch(port, get(f"/api/usage?{ALWAYS}&{query}", key(owner)))
    assert answer.status == 200, bytes(answer.body)
    found: list[dict[str, Any]] = answer.json["data"]
    return found


def read_group(group: dict[str, Any]) -> tuple[LedgerKey, UsageCounts]:
    """Read a group that the API shows; costs and exchanges are not in the ledger."""
    where = (group["owner"], group["model"], group["upstream"])
    names = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    told, cached, said, thought = (group[name] for name in names)
    return where, UsageCounts(
        0, group["turns"], group["reported_turns"], told, cached, said, thought
    )


async def show_ledger(port: int) -> dict[LedgerKey, UsageCounts]:
    """Ask a gateway for usage, in the form of the ledger."""
    groups = await show_usage(port, query="group_by=owner,model,upstream")
    found = dict(map(read_group, groups))
    return {where: counts for where, counts in found.items() if counts.turns}


def read_stored(home: Path) -> dict[LedgerKey, UsageCounts]:
    """Read what a gateway that is gone has stored, in the form of the ledger."""
    path = home / ".holdgate" / "sessions" / "holdgate.sqlite3"
    total: dict[LedgerKey, UsageCounts] = defaultdict(UsageCounts)
    with closing(sqlite3.connect(path)) as database:
        for row in database.execute(
            "SELECT owner, model, upstream, 0, turns, reported_turns, input, cached, output, reasoning"
            " FROM usage WHERE turns > 0"
        ):
            total[row[:3]] += UsageCounts(*row[3:])
    return dict(total)
