"""Agents of the command line, unmodified: each run has an empty home, a made-up key, and loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .node import DIRECTORY, INSTALL, NotReady
from .processes import Running, running
from .table import PAGE

HERE = "http://127.0.0.1:8787"
# Agents also ask for news, plugins and the like; nothing but the gateway is there for them.
NOWHERE = "http://127.0.0.1:1"
LIMIT = 90.0
KEEPALIVE_MS = 500
SETTINGS = {
    "HOLDGATE_SERVER__KEEPALIVE_MS": str(KEEPALIVE_MS),
    "HOLDGATE_CLOCK__ENABLED": "true",
    "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
    "HOLDGATE_CLOCK__NTP__ENABLED": "false",
}
HEARD = "heard.jsonl"
SECONDS = 4
HOLD = f"remind me in {SECONDS} seconds to drink tea"
# A member of what the clock answers, within the JSON of a request; the time tag writes it otherwise.
CLOCK_SAID = '\\"nowMs\\"'

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """A prompt that is answered by an upstream of some dialect."""

    name: str
    dialect: str
    prompt: str

    @property
    def model(self) -> str:
        """A model that no other scene asks for, by which its requests can be told apart."""
        return f"{self.name}-over-{self.dialect}"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a scene is played: its gateway, and a directory with nothing in it."""

    scene: Scene
    url: str
    home: Path


Perform = Callable[[Stage], tuple[Event, ...]]
"""Plays the agent's part, and returns what there is to see of it."""


@dataclass(frozen=True, slots=True)
class Command:
    """How an agent is started, and its environment beside what all have."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scene: what the agent printed, what its upstream was asked, what is logged."""

    events: tuple[Event, ...]
    asked: tuple[Event, ...]
    exchanges: tuple[Event, ...]


def agent(package: str, script: str, directory: Path = DIRECTORY) -> tuple[str, str]:
    """Return the command that starts an agent."""
    return ("node", str(directory / "node_modules" / package / script))


def check(command: Sequence[str]) -> None:
    """See whether an agent starts, or say what it lacks."""
    done = subprocess.run((*command, "--version"), capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise NotReady(
            f"{command[-1]} does not start. The agent's program for this machine is an optional "
            f"dependency: run npm {' '.join(INSTALL)} --include=optional in {DIRECTORY}.\n"
            f"{done.stderr.strip()}"
        )


def documented(section: str, language: str) -> str:
    """Return the example of a section of docs/clients.md."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None, f"{PAGE} has no {language} example for {section}"
    return found[1]


def exported(section: str) -> dict[str, str]:
    """Return the environment that docs/clients.md wants for an agent."""
    return dict(re.findall(r"^export (\w+)=(.*)$", documented(section, "sh"), re.MULTILINE))


def by(command: Callable[[Stage], Command]) -> Perform:
    """Have scenes performed by an agent that is started like this."""
    return lambda stage: run(command(stage), stage.home)


def play(scenes: Sequence[Scene], perform: Perform, place: Path) -> Mapping[Scene, Outcome]:
    """Play scenes side by side, all with one gateway."""
    backstage, house = place / "upstream", place / "gateway"
    for directory in (backstage, house):
        directory.mkdir()
    listen = ("gateway.demo", "--port", "0", "--log", HEARD)
    with running(*listen, home=backstage, settings={}) as upstream:
        config = house / "agents.toml"
        config.write_text(_config(scenes, upstream.url))
        serve = ("gateway", "serve", "--port", "0", "--config", config.name)
        with running(*serve, home=house, settings=SETTINGS) as gateway:
            stages = [Stage(s, gateway.url, place / s.model) for s in scenes]
            with ThreadPoolExecutor(len(stages)) as threads:
                printed = dict(zip(scenes, threads.map(perform, stages), strict=True))
    # An agent may end before its exchange is logged; what has ended has logged everything.
    heard = _lines((backstage / HEARD).read_text())
    return {scene: _outcome(scene, printed[scene], heard, gateway) for scene in scenes}


def _config(scenes: Iterable[Scene], upstream: str) -> str:
    upstreams = (
        f'[[upstreams]]\nid = "{dialect}"\ndialect = "{dialect}"\nbase_url = "{upstream}/v1"\n'
        for dialect in dict.fromkeys(scene.dialect for scene in scenes)
    )
    models = (
        f'[[models]]\nname = "{scene.model}"\nroutes = ["{scene.dialect}/{scene.model}"]\n'
        for scene in scenes
    )
    return "".join((*upstreams, *models))


def surroundings(home: Path) -> dict[str, str]:
    """Return the environment of every agent: a home of its own, and nothing but this machine."""
    common = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1"}
    return common | dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)


def run(command: Command, home: Path) -> tuple[Event, ...]:
    """Run an agent to its end, and return what it printed."""
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        command.arguments,
        cwd=work,
        env={**surroundings(home), **command.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Node starts the program proper; both are ended when they take too long.
        start_new_session=True,
    ) as process:
        try:
            printed, complaints = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, f"{printed}\n{complaints}"
    return _lines(printed)


def _lines(text: str) -> tuple[Event, ...]:
    return tuple(msgspec.json.decode(line) for line in text.splitlines())


def _outcome(
    scene: Scene, events: tuple[Event, ...], heard: Iterable[Event], gateway: Running
) -> Outcome:
    bodies = [note["body"] for note in heard if note["event"] == "request"]
    asked = [body for body in bodies if body["model"] == scene.model]
    return Outcome(events, tuple(asked), tuple(gateway.exchanges(model=scene.model)))
