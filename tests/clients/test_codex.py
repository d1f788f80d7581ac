"""Codex CLI, which speaks Responses, with upstreams of all dialects."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from .catalogue import tells
from .cli import (
    CLOCK_SAID,
    HERE,
    HOLD,
    Command,
    Outcome,
    Scene,
    Stage,
    agent,
    by,
    check,
    documented,
    exported,
    play,
)
from .conftest import fail_unless
from .node import DIRECTORY, NotReady, locked_version
from .speakers import CODEX, DIALECTS
from .table import PAGE

NAME = CODEX.name
PACKAGE, SCRIPT = "@openai/codex", "bin/codex.js"
IDLE_MS = 1500
# It would try again by itself; here whatever goes wrong is to be seen.
IMPATIENT = f"stream_idle_timeout_ms = {IDLE_MS}\nstream_max_retries = 0\nrequest_max_retries = 0\n"
OPTIONS = ("exec", "--skip-git-repo-check", "--json", "--sandbox", "danger-full-access")
# One turn calls both the gateway's tool and Codex's own.
TOOLS = """
demo: tool=clock args={"action":"get"} tool=exec_command args={"cmd":"echo tea-$((6*7))"}
demo: say="The shell said so."
"""
SCENES = {
    (name, dialect): Scene(name, dialect, prompt)
    for dialect in DIALECTS
    for name, prompt in (("tools", TOOLS), ("hold", HOLD))
}
WORDS = Scene("words", DIALECTS[0], "Why is the sky blue?")

over = pytest.mark.parametrize("dialect", DIALECTS)

Outcomes = Mapping[Scene, Outcome]


@pytest.fixture(scope="module")
def outcomes(node: None, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Play all scenes at once."""
    fail_unless(lambda: check(agent(PACKAGE, SCRIPT)))
    return play((*SCENES.values(), WORDS), by(command), tmp_path_factory.mktemp("codex"))


def command(stage: Stage) -> Command:
    """Configure Codex as the documentation says, and have it print all that happens."""
    config = stage.home / ".codex" / "config.toml"
    config.parent.mkdir(parents=True)
    text = documented(NAME, "toml").replace(HERE, stage.url) + IMPATIENT
    config.write_text(text.replace('model = "demo"', f'model = "{stage.scene.model}"'))
    return Command((*agent(PACKAGE, SCRIPT), *OPTIONS, stage.scene.prompt), exported(NAME))


def command_by_url(stage: Stage) -> Command:
    """Configure Codex with the gateway's address alone: it tries a WebSocket first."""
    config = stage.home / ".codex" / "config.toml"
    config.parent.mkdir(parents=True)
    model = stage.scene.model
    config.write_text(f'model = "{model}"\nopenai_base_url = "{stage.url}/v1"\n')
    arguments = (*agent(PACKAGE, SCRIPT), *OPTIONS, stage.scene.prompt)
    return Command(arguments, {"OPENAI_API_KEY": "none", "CODEX_API_KEY": "none"})


def items(outcome: Outcome, kind: str, member: str) -> list[str]:
    """List what Codex shows of its finished items of one kind."""
    done = [event["item"] for event in outcome.events if event["type"] == "item.completed"]
    return [item[member] for item in done if item["type"] == kind]


@tells("its own shell, in a tool loop", CODEX)
@over
def test_it_runs_its_own_tool(dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES["tools", dialect]]
    assert items(outcome, "command_execution", "aggregated_output") == ["tea-42\n"]
    assert items(outcome, "agent_message", "text") == ["The shell said so."]


@over
def test_the_model_finds_its_calls_answered(dialect: str, outcomes: Outcomes) -> None:
    first, second = outcomes[SCENES["tools", dialect]].asked
    assert "tea-42" not in json.dumps(first)
    assert "tea-42" in json.dumps(second)
    assert CLOCK_SAID in json.dumps(second), "what the clock said is put back"


@tells("a hold of 4 seconds, both turns seen", CODEX)
@over
def test_it_survives_a_hold(dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES["hold", dialect]]
    first, second = items(outcome, "agent_message", "text")
    assert first.startswith("I set it: drink tea. This answer stays open")
    assert second == "\n\nIt is time: drink tea."
    (exchange,) = outcome.exchanges
    assert exchange["state"] == "done"
    assert exchange["ms"] > 2 * IDLE_MS


@tells("the clock called in between, unseen", CODEX)
@over
@pytest.mark.parametrize("scene", ["tools", "hold"])
def test_the_clock_is_called_unseen(scene: str, dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES[scene, dialect]]
    assert '"clock"' in json.dumps(outcome.asked[0]["tools"])
    assert "clock" not in json.dumps(outcome.events)


def test_the_demo_quotes_the_user(outcomes: Outcomes) -> None:
    (said,) = items(outcomes[WORDS], "agent_message", "text")
    assert said.startswith("You said “Why is the sky blue?”.")


def test_told_only_the_url_it_falls_back_from_its_websocket(node: None, tmp_path: Path) -> None:
    """It opens a WebSocket; told 426, it asks over HTTP at once and without an error."""
    fail_unless(lambda: check(agent(PACKAGE, SCRIPT)))
    scene = Scene("by-url", "openai-responses", 'demo: say="Over HTTP."')
    outcome = play((scene,), by(command_by_url), tmp_path)[scene]
    assert items(outcome, "agent_message", "text") == ["Over HTTP."]
    assert [event for event in outcome.events if event["type"] == "error"] == []
    (exchange,) = outcome.exchanges
    assert exchange["state"] == "done"


def test_without_its_program_it_says_so(node: None, tmp_path: Path) -> None:
    installed = Path("node_modules", PACKAGE)
    shutil.copytree(DIRECTORY / installed, tmp_path / installed)
    with pytest.raises(NotReady, match=f"{SCRIPT} does not start. .* run npm ci"):
        check(agent(PACKAGE, SCRIPT, tmp_path))


def test_the_page_names_this_version() -> None:
    assert f"{NAME} {locked_version(PACKAGE)}," in PAGE.read_text()
