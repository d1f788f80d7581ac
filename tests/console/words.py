"""Exchanges made up of steps, and what the console is asked for: the words of these tests."""

from __future__ import annotations

import json
from typing import Any

import anyio

from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, RequestSource, Route, Stop, Usage
from gateway.exchange.observer import ExchangeEnded
from gateway.exchange.trail import TURN_ENDED, Trail
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.run import Running

ROUTE = Route("a", "m")
USAGE = Usage(10, 5)


def info_of(number: int = 1, owner: str = "ann", session: str | None = None) -> ExchangeInfo:
    """Name an exchange."""
    name = f"req_{number:024d}"
    return ExchangeInfo(name, name, owner, session, "m", "openai-chat", True)


def ended_of(state: State = State.DONE, **more: Any) -> ExchangeEnded:
    """Say how an exchange of a second went."""
    members = {
        "info": info_of(),
        "state": state,
        "route": ROUTE,
        "turns": 1,
        "tries": 1,
        "status": 200,
        "seconds": 1.0,
        "first_seconds": 0.2,
        "bytes": 500,
        "usage": USAGE,
        **more,
    }
    return ExchangeEnded(**members)


def plain_trail(number: int = 1, owner: str = "ann", begun: float = 0.0) -> Trail:
    """Make the trail of an exchange of one turn that has ended."""
    trail = Trail(RequestSource("/v1/chat/completions"), begun)
    trail.steps += [
        (begun + 0.2, State.RELAYING),
        (begun + 0.9, TURN_ENDED, Stop.STOP, 500, USAGE, ROUTE),
        (begun + 0.9, State.CLOSING),
        (begun + 1.0, State.DONE),
    ]
    trail.ended = ended_of(info=info_of(number, owner))
    return trail


async def fetch_json(gate: Running, path: str, *headers: str) -> Any:
    """Get something of the console."""
    answer = await gate.fetch(get(f"/api/console/{path}", *headers))
    assert answer.status == 200, answer.body
    assert answer.headers["cache-control"] == "no-store"
    return answer.json


async def collect_trails(gate: Running, ident: str, found: list[Any]) -> None:
    """Ask for a trail again and again, for ever."""
    while True:
        found.append(await fetch_json(gate, f"exchanges/{ident}"))
        await anyio.sleep(0.03)


def list_settled(trail: Any) -> set[str]:
    """Return what a trail tells of things that are over, each as a text; none of it may change later."""
    found = [("state", place, *state) for place, state in enumerate(trail["states"])]
    for turn in trail["turns"]:
        n = turn["n"]
        found.append(("turn", n, turn["why"], turn["round"]))
        found += [("try", n, one) for one in turn["tries"] if one["ended"] is not None]
        found += [("first", n, turn["first"])] if turn["first"] is not None else []
        found += [("ended", n, turn["ended"], turn["stop"])] if turn["ended"] is not None else []
    found += [("tool", one) for one in trail["tools"] if one["ms"] is not None]
    found += [("hold", one["turn"], one["at"], one["until"]) for one in trail["holds"]]
    return {json.dumps(one) for one in found}


async def post(gate: Running, path: str, *headers: str) -> Answer:
    """Do something with an exchange."""
    return await gate.fetch(request("POST", f"/api/console/exchanges/{path}", *headers))


class FeedPage:
    """A page that follows the feed, and keeps rows as pages do."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read = 0
        self.rows: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, Any]] = []
        self.place = ""

    @classmethod
    async def open(
        cls,
        gate: Running,
        topics: str,
        *headers: str,
        after: str = "",
        former: FeedPage | None = None,
    ) -> FeedPage:
        """Begin to follow topics; `former` is the page that followed them before."""
        path = f"/api/console/feed?topics={topics}&after={after}"
        page = cls(await gate.send(get(path, *headers)))
        if former is not None:
            page.rows = former.rows
        return page

    async def read(self) -> str:
        """Take the next event; return its name."""
        answer = await self._client.saw(b"")
        assert answer.status == 200, answer.body
        while (end := bytes(answer.body).find(b"\n\n", self._read)) < 0:
            answer = await self._client.more()
        frame = bytes(answer.body)[self._read : end].decode()
        frame = frame.removeprefix(": ping\n")
        self._read = end + 2
        lines = [line.partition(": ") for line in frame.splitlines()]
        members = {name: value for name, _, value in lines}
        name, data = members["event"], json.loads(members["data"])
        self.events.append((name, data))
        if name == "reset":
            self.rows.clear()
        if name == "state":
            self.place = members["id"]
            for topic, changes in data.items():
                self.take(topic, changes)
        return name

    def take(self, topic: str, changes: dict[str, Any]) -> None:
        """Take over what changed in a topic."""
        rows = {} if changes.get("reset") else self.rows.setdefault(topic, {})
        self.rows[topic] = rows
        for key in changes.get("drop", ()):
            rows.pop(key, None)
        rows.update(changes.get("put", {}))

    async def until(self, topic: str, key: str, **members: Any) -> Any:
        """Read on until a row is so."""
        while True:
            row = self.rows.get(topic, {}).get(key)
            if row is not None and all(row[name] == value for name, value in members.items()):
                return row
            await self.read()

    def leave(self) -> None:
        """Close the page."""
        self._client.leave()
