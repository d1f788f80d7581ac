"""Claude Code, which speaks Anthropic Messages, with upstreams of all dialects."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from .catalogue import tells
from .cli import (
    CLOCK_SAID,
    HERE,
    HOLD,
    SECONDS,
    Command,
    Event,
    Outcome,
    Scene,
    Stage,
    agent,
    by,
    check,
    exported,
    play,
)
from .conftest import fail_unless
from .node import DIRECTORY, NotReady, locked_version
from .speakers import CLAUDE_CODE, DIALECTS
from .table import PAGE

NAME = CLAUDE_CODE.name
PACKAGE, SCRIPT = "@anthropic-ai/claude-code", "cli-wrapper.cjs"
OPTIONS = ("--output-format", "stream-json", "--verbose", "--allowedTools", "Bash")
# One turn calls both the gateway's tool and Claude Code's own.
TOOLS = """
demo: tool=clock args={"action":"get"} tool=Bash args={"command":"echo tea-$((6*7))"}
demo: say="The shell said so."
"""
STOP = 'demo: say="First." <**stopMessage:"go on",2**>'
SCENES = {
    (name, dialect): Scene(name, dialect, prompt)
    for dialect in DIALECTS
    for name, prompt in (("tools", TOOLS), ("hold", HOLD), ("stop", STOP))
}
# It starts a sub-agent; the user's stop message is for the conversation.
DELEGATED = """<**stopMessage:"go on",2**>
demo: tool=Task args={"description":"look","prompt":"find the tea","subagent_type":"general-purpose"}
demo: say="Done."
"""
SUB_AGENT = Scene("sub-agent", DIALECTS[-1], DELEGATED)
WORDS = Scene("words", DIALECTS[0], "Why is the sky blue?")

over = pytest.mark.parametrize("dialect", DIALECTS)

Outcomes = Mapping[Scene, Outcome]


@pytest.fixture(scope="module")
def outcomes(node: None, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Play all scenes at once."""
    fail_unless(lambda: check(agent(PACKAGE, SCRIPT)))
    return play(
        (*SCENES.values(), SUB_AGENT, WORDS), by(command), tmp_path_factory.mktemp("claude_code")
    )


def command(stage: Stage) -> Command:
    """Configure Claude Code as the documentation says, and have it print all that happens."""
    values = {HERE: stage.url, "demo": stage.scene.model}
    environment = {name: values.get(value, value) for name, value in exported(NAME).items()}
    # After `--`, since the option before it takes any number of values.
    return Command((*agent(PACKAGE, SCRIPT), "-p", *OPTIONS, "--", stage.scene.prompt), environment)


def blocks(outcome: Outcome, kind: str) -> Iterator[Event]:
    """Yield the content blocks of one kind, as Claude Code read or made them."""
    for event in outcome.events:
        if event.get("type") in ("assistant", "user"):
            yield from (block for block in event["message"]["content"] if block["type"] == kind)


def texts(outcome: Outcome) -> list[str]:
    """List the texts of the model."""
    return [block["text"] for block in blocks(outcome, "text")]


@tells("its own shell, in a tool loop", CLAUDE_CODE)
@over
def test_it_runs_its_own_tool(dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES["tools", dialect]]
    assert [block["content"] for block in blocks(outcome, "tool_result")] == ["tea-42"]
    assert texts(outcome) == ["The shell said so."]


@over
def test_the_model_finds_its_calls_answered(dialect: str, outcomes: Outcomes) -> None:
    first, second = outcomes[SCENES["tools", dialect]].asked
    assert "tea-42" not in json.dumps(first)
    assert "tea-42" in json.dumps(second)
    assert CLOCK_SAID in json.dumps(second), "what the clock said is put back"


@tells("a hold of 4 seconds, both turns seen", CLAUDE_CODE)
@over
def test_it_survives_a_hold(dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES["hold", dialect]]
    first, second = texts(outcome)
    assert first.startswith("I set it: drink tea. This answer stays open")
    assert second == "\n\nIt is time: drink tea."
    (exchange,) = outcome.exchanges
    assert exchange["state"] == "done"
    assert exchange["ms"] > (SECONDS - 1) * 1000


@tells("a stop message, all three turns seen", CLAUDE_CODE)
@over
def test_a_stop_message_goes_on(dialect: str, outcomes: Outcomes) -> None:
    outcome = outcomes[SCENES["stop", dialect]]
    first, *others = texts(outcome)
    assert first == "First."
    assert [text.partition(".")[0] for text in others] == ["\n\nYou said “go on”"] * 2
    assert len(outcome.asked) == 3
    assert "stopMessage" not in json.dumps(outcome.asked)
    (exchange,) = outcome.exchanges
    assert exchange["turns"] == 3


@tells("a stop message of the conversation, not spent on its sub-agent", CLAUDE_CODE)
def test_a_sub_agent_takes_nothing_of_the_conversations(outcomes: Outcomes) -> None:
    asked = [(body, json.dumps(body["messages"])) for body in outcomes[SUB_AGENT].asked]
    (sub_agents,) = [
        said for _, said in asked if "find the tea" in said and "tool=Task" not in said
    ]
    assert "go on" not in sub_agents
    ends = [json.dumps(body["messages"][-1]["content"]) for body, _ in asked]
    assert sum('"go on"' in end for end in ends) == 2
    assert "stopMessage" not in json.dumps(outcomes[SUB_AGENT].asked)


@tells("the clock called in between, unseen", CLAUDE_CODE)
@over
@pytest.mark.parametrize("scene, called", [("tools", ["Bash"]), ("hold", [])])
def test_the_clock_is_called_unseen(
    scene: str, called: list[str], dialect: str, outcomes: Outcomes
) -> None:
    outcome = outcomes[SCENES[scene, dialect]]
    assert '"clock"' in json.dumps(outcome.asked[0]["tools"])
    assert [block["name"] for block in blocks(outcome, "tool_use")] == called


def test_the_demo_quotes_the_user(outcomes: Outcomes) -> None:
    (said,) = texts(outcomes[WORDS])
    assert said.startswith("You said “Why is the sky blue?”.")


def test_without_its_program_it_says_so(node: None, tmp_path: Path) -> None:
    installed = Path("node_modules", PACKAGE)
    shutil.copytree(DIRECTORY / installed, tmp_path / installed)
    with pytest.raises(NotReady, match=f"{SCRIPT} does not start. .* run npm ci"):
        check(agent(PACKAGE, SCRIPT, tmp_path))


def test_the_page_names_this_version() -> None:
    assert f"{NAME} {locked_version(PACKAGE)}," in PAGE.read_text()
