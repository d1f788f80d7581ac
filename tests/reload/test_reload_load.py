"""SIGHUP under load: many streams and holds go on, byte for byte, while the file changes."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.timestamps import iso
from tests.clock.holding import calls, told_ms
from tests.gateway.client import Answer, Client
from tests.gateway.wire import DONE, chat, event, get, text, turn
from tests.reload.words import ReloadingProcess, key, model, reloading, upstream
from tests.run import until
from tests.sessions.talk import messages
from tests.wire.fake import CHUNKED, LAST, FakeUpstream, Peer, chunk, fake_upstream

ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE
PAUSE = 0.1
SPARE_DESCRIPTORS = 30
BROKEN = """
[[keys]]
owner = "ann"
[[models]]
name = "m"
routes = ["nowhere/m"]
[[agents]]
id = "a"
model = "unknown"
[server]
port = "many"
colour = "red"
"""
MISTAKES = ("keys[0]", "models[0].routes", "agents[0].model", "server.port", "server.colour")


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many there are, how often the file changes, and when the last hold ends."""

    streams: int
    holds: int
    reloads: int
    held_seconds: float


SHORT = Crowd(40, 10, 3, 5)
LONG = Crowd(200, 50, 50, 60)


@dataclass(slots=True)
class StreamingModel:
    """An upstream whose streams go on until they are told to end, and what it sent on each."""

    over: anyio.Event = field(default_factory=anyio.Event)
    sent: defaultdict[str, bytes] = field(default_factory=lambda: defaultdict(bytes))

    async def play(self, peer: Peer) -> None:
        """Answer requests: short ones at once, others piece by piece."""
        while True:
            asked = await peer.request()
            name = messages(asked)[-1]["content"]
            await peer.send(CHUNKED)
            if name == "short":
                await peer.send(chunk(turn("done")) + LAST)
                continue
            await self._send(peer, name, ROLE)
            number = 0
            while not self.over.is_set():
                await self._send(peer, name, text(f"{name} says {number}. "))
                number += 1
                with anyio.move_on_after(PAUSE):
                    await self.over.wait()
            await self._send(peer, name, END)
            await peer.send(LAST)

    async def _send(self, peer: Peer, name: str, frame: bytes) -> None:
        self.sent[name] += frame
        await peer.send(chunk(frame))


def reminding(crowd: Crowd) -> Any:
    """Return the story of a model that sets a reminder, says so, and speaks again when it is due.

    The reminders of the conversations are due one after another, until the last second.
    """

    def due(asked: dict[str, Any]) -> dict[str, Any]:
        (number,) = [int(m["content"]) for m in asked["messages"] if m["content"].isdigit()]
        in_ms = crowd.held_seconds * 1000 * (number + 1) / crowd.holds
        item = {"dueAt": iso(round(told_ms(asked) + 2000 + in_ms)), "task": "tea"}
        return {"action": "schedule", "items": [{**item, "tool": "", "arguments": "{}"}]}

    schedule = calls("clock", due)

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            spoken = sum(message["role"] == "assistant" for message in asked["messages"])
            if spoken == 0:
                await peer.send(*schedule(asked, "a"))
            else:
                words = "It is set. " if spoken == 1 else "Drink your tea!"
                await peer.send(CHUNKED, chunk(turn(words, "ab"[spoken - 1])), LAST)

    return story


@dataclass(slots=True)
class Stage:
    """The gateway, its upstreams, and the answers under way."""

    gate: ReloadingProcess
    streaming: FakeUpstream
    holding: FakeUpstream
    story: StreamingModel
    answers: dict[str, Answer] = field(default_factory=dict)

    async def read(self, name: str, client: Client) -> None:
        """Read an answer to its end."""
        self.answers[name] = await client.answer()
        client.leave()


def tables(number: int, streaming: int, holding: int) -> dict[str, Any]:
    """Write the file as it is for the so-manieth time: of each kind something comes and goes.

    The upstream of all streams changes each time. That of the holds is only in the first file.
    """
    headers = {"x-version": str(number)}
    upstreams = [upstream("a", streaming, headers=headers)]
    models = [model("m", "a"), model(f"model-{number}", "a")]
    if number == 0:
        upstreams.append(upstream("h", holding))
        models.append({"name": "held", "routes": ["h/m"]})
    keys = [key("ann", "ann's key", admin=True), key(f"owner-{number}", f"key-{number}")]
    clock = {"due_window_ms": 0, "hold_max_ms": 600_000}
    server = {"keepalive_ms": 5000}
    return {
        "server": server,
        "clock": clock,
        "upstreams": upstreams,
        "models": models,
        "keys": keys,
    }


@pytest.mark.parametrize(
    "crowd",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)],
)
async def test_a_crowd_does_not_notice_reloads(crowd: Crowd, tmp_path: Path) -> None:
    story = StreamingModel()
    async with fake_upstream(story.play) as streaming, fake_upstream(reminding(crowd)) as holding:
        ports = streaming.port, holding.port
        async with reloading(tmp_path, tables(0, *ports)) as gate:
            stage = Stage(gate, streaming, holding, story)
            async with anyio.create_task_group() as readers:
                await begin(stage, crowd, readers)
                most = gate.descriptors + SPARE_DESCRIPTORS
                for number in range(1, crowd.reloads + 1):
                    await change(stage, number)
                    assert gate.descriptors < most
                # The last hold is over before the streams: they last longer than all of it.
                await until(lambda: len(stage.answers) == crowd.holds, crowd.held_seconds + 30)
                story.over.set()
            check_answers(stage, crowd)


async def begin(stage: Stage, crowd: Crowd, readers: anyio.abc.TaskGroup) -> None:
    """Have all streams run and all answers held."""
    secret = "authorization: Bearer ann's key"
    for number in range(crowd.streams):
        name = f"stream {number}"
        client = await stage.gate.start(chat(name), secret)
        await client.saw(ROLE)
        readers.start_soon(stage.read, name, client)
    for number in range(crowd.holds):
        name = f"x-session-id: held-{number}"
        client = await stage.gate.start(chat(str(number), model="held"), secret, name)
        readers.start_soon(stage.read, f"held {number}", client)
    await until(lambda: len(stage.holding.requests) >= 2 * crowd.holds, 20)


async def change(stage: Stage, number: int) -> None:
    """Change the file: what is new works, what is gone is refused; a broken one changes nothing."""
    gate = stage.gate
    content = tables(number, stage.streaming.port, stage.holding.port)
    line = await gate.reload(content)
    assert line["keys_added"] == f"owner-{number}"
    assert line["keys_removed"] == f"owner-{number - 1}"
    assert line["models_added"] == f"model-{number}"
    assert line["upstreams_changed"] == "a"
    await check_in_force(stage, number)
    mistakes = await gate.refuse(BROKEN, len(MISTAKES))
    assert sorted(mistake.partition(":")[0] for mistake in mistakes) == sorted(MISTAKES)
    await check_in_force(stage, number)


async def check_in_force(stage: Stage, number: int) -> None:
    """Check that requests are answered by the so-manieth file, and by no other."""
    gate = stage.gate
    answer = await gate.ask(f"model-{number}", f"key-{number}")
    assert (answer.status, answer.text) == (200, "done")
    assert stage.streaming.requests[-1].headers[b"x-version"] == str(number).encode()
    assert (await gate.ask("m", f"key-{number - 1}")).status == 401
    assert (await gate.ask(f"model-{number - 1}", f"key-{number}")).status == 404
    listed = (await gate.fetch(get("/v1/models", f"x-api-key: key-{number}"))).json["data"]
    assert [one["id"] for one in listed] == ["m", f"model-{number}"]


def check_answers(stage: Stage, crowd: Crowd) -> None:
    """Check every byte of every stream, and that every held answer came to its end."""
    for number in range(crowd.streams):
        name = f"stream {number}"
        assert bytes(stage.answers[name].body) == stage.story.sent[name]
    for number in range(crowd.holds):
        answer = stage.answers[f"held {number}"]
        assert answer.text.replace("\n", "").endswith("It is set. Drink your tea!")
        assert answer.datas.count(b"[DONE]") == 1
    # Each set its reminder, said so, and came back to the upstream that is gone from the file.
    assert len(stage.holding.requests) == 3 * crowd.holds
