"""Coding agents on Gemini, which wants its signatures back: neither agent can carry them."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from tests.providers.gemini import CLOCK, PLACEHOLDER, Step, StrictGemini
from tests.run import as_process, upstreams_of
from tests.wire.fake import fake_upstream

from . import test_claude_code, test_codex
from .catalogue import tells
from .cli import SETTINGS, Command, Event, Scene, Stage, agent, check, run
from .conftest import fail_unless
from .speakers import CHAT, CLAUDE_CODE, CODEX

CLAUDE = agent(test_claude_code.PACKAGE, test_claude_code.SCRIPT)
CODEX_CLI = agent(test_codex.PACKAGE, test_codex.SCRIPT)
SAID = "The shell said so."


def steps(tool: str, member: str) -> tuple[Step, ...]:
    """Use the agent's own shell: once, twice at once, and with the clock before and beside it."""
    shell = [(tool, {member: f"echo tea-$((6*{number}))"}) for number in range(1, 5)]
    return (shell[0],), (shell[1], shell[2]), (CLOCK,), (CLOCK, shell[3]), SAID


@asynccontextmanager
async def gateway(port: int, home: Path) -> AsyncIterator[str]:
    """Run a gateway in front of Gemini; it is killed in the end."""
    tables = upstreams_of(port, profile="gemini")
    settings = {f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()}
    home.mkdir(exist_ok=True)
    async with as_process(home, {**SETTINGS, **settings}) as process:
        yield process.url


async def perform(command: Command, home: Path) -> tuple[Event, ...]:
    """Run an agent to its end, while Gemini answers in this loop."""
    return await to_thread.run_sync(run, command, home)


@pytest.fixture
def stage(node: None, tmp_path: Path) -> Stage:
    """Where an agent asks for the model `m`."""
    return Stage(OnGemini("gemini", CHAT, "How much tea?"), "", tmp_path / "agent")


class OnGemini(Scene):
    """A prompt that Gemini answers."""

    @property
    def model(self) -> str:
        """The only model there is."""
        return "m"


def check_signatures(gemini: StrictGemini, commands: int) -> None:
    """Insist that all calls came back signed as Gemini signed them."""
    assert gemini.refused == []
    assert PLACEHOLDER not in json.dumps(gemini.asked)
    told = gemini.sent_signatures()
    assert told
    assert told.items() <= gemini.signatures.items()
    results = [m["content"] for m in gemini.asked[-1]["messages"] if m["role"] == "tool"]
    assert sum("tea-" in result for result in results) == commands


@tells("tool loops on Gemini, with signatures it cannot carry", CLAUDE_CODE)
async def test_claude_code_keeps_them_over_a_restart(stage: Stage) -> None:
    fail_unless(lambda: check(CLAUDE))
    gemini, session = StrictGemini(*steps("Bash", "command")), str(uuid.uuid4())
    async with fake_upstream(gemini.story) as fake:
        for prompt, named in (("How much tea?", "--session-id"), ("Sure?", "--resume")):
            async with gateway(fake.port, stage.home.parent / "gateway") as url:
                told = test_claude_code.command(Stage(stage.scene, url, stage.home))
                words = ("-p", named, session, *test_claude_code.OPTIONS, "--", prompt)
                events = await perform(Command((*CLAUDE, *words), told.environment), stage.home)
                assert events[-1]["result"] == SAID
    check_signatures(gemini, commands=4)


@tells("tool loops on Gemini, with signatures it cannot carry", CODEX)
async def test_codex_keeps_them(stage: Stage) -> None:
    fail_unless(lambda: check(CODEX_CLI))
    gemini = StrictGemini(*steps("exec_command", "cmd"))
    async with (
        fake_upstream(gemini.story) as fake,
        gateway(fake.port, stage.home.parent / "gateway") as url,
    ):
        command = test_codex.command(Stage(stage.scene, url, stage.home))
        events = await perform(command, stage.home)
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    assert [item["text"] for item in done if item["type"] == "agent_message"] == [SAID]
    check_signatures(gemini, commands=4)
