"""The agent that is there without any configuration, in a real process."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gateway.app.wiring import agents_of
from gateway.config import load
from tests.test_command_line import serving

PATIENCE = 20
DEMO = {"id": "demo", "name": "Demo", "model": "demo", "tools": ["clock", "schedule_task"]}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A gateway as anybody starts it."""
    with serving(tmp_path) as gate:
        yield gate.url


def answer(url: str, body: dict[str, str] | None = None) -> Any:
    """Ask for something; the answer is read as it comes."""
    data = json.dumps(body).encode() if body else None
    asked = urllib.request.Request(url, data, {"content-type": "application/json"})
    return urllib.request.urlopen(asked, timeout=PATIENCE)


def events(stream: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read events as they come."""
    name = ""
    for line in stream:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def say_to_demo(url: str, message: str) -> str:
    """Say something to the agent, and hear it out."""
    with answer(f"{url}/api/chat", {"agentId": "demo", "message": message}) as stream:
        found = list(events(stream))
    assert found[-1][0] == "complete", found[-1]
    return "".join(data["delta"] for name, data in found if name == "text")


def say_between_runs(url: str, message: str, runs: Iterator[dict[str, Any]]) -> str:
    """Say something to the agent after one of its runs: while there is one, it is refused."""
    while True:
        try:
            return say_to_demo(url, message)
        except HTTPError as refused:
            if refused.status != 429:
                raise
        next(runs)


def test_there_is_an_agent_to_talk_to(url: str) -> None:
    with answer(f"{url}/api/agents") as listed:
        assert json.load(listed) == {"agents": [DEMO]}
    assert say_to_demo(url, "Hello!").startswith("Hello! I am the demo model")


def test_it_does_something_again_and_again_until_it_is_told_to_stop(url: str) -> None:
    with answer(f"{url}/api/sessions/demo/events") as stream:
        said = say_to_demo(url, "every second tell me a word")
        assert said.startswith("I will do it every second: tell me a word. The first time is at ")
        runs = (data["data"] for name, data in events(stream) if name == "run.finished")
        found = [next(runs), next(runs)]
        # The word goes by the second, and on a busy machine two runs may begin in one.
        while found[-1]["result"] == found[0]["result"]:
            found.append(next(runs))
        assert say_between_runs(url, "stop", runs) == "I cancelled it: tell me a word."
    assert {run["status"] for run in found} == {"ok"}
    with answer(f"{url}/api/sessions/demo") as shown:
        session = json.load(shown)
    assert session["jobs"] == []
    words = [m["content"] for m in session["messages"] if m["role"] == "assistant"]
    assert {run["result"] for run in found} <= set(words)


def test_one_that_is_configured_takes_its_place(tmp_path: Path) -> None:
    file = tmp_path / "holdgate.toml"
    file.write_text('[[agents]]\nid = "mine"\nmodel = "demo"\n')
    assert [agent.id for agent in agents_of(load(file, {}, {}, tmp_path))] == ["mine"]


def test_where_demo_is_no_public_model_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "holdgate.toml"
    file.write_text('[[models]]\nname = "default"\nroutes = ["demo/demo"]\n')
    assert agents_of(load(file, {}, {}, tmp_path)) == []
