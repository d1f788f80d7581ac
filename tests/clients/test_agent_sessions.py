"""Coding agents whose session has something waiting: the main conversation gets it, once.

Claude Code (interactive) and opencode ask for a title first; all three start sub-agents. Neither may
take the reminder, the result of a job, or the stop message that belong to the person's conversation.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import pytest

from . import test_claude_code, test_codex
from .agent_sessions import (
    GO_ON,
    REPEATS,
    RESULT,
    SUB_PROMPT,
    TASK,
    Heard,
    House,
    ask,
    meanwhile,
    open_house,
    until,
)
from .cli import HERE, Command, agent, check, documented, exported, run, surroundings
from .conftest import fail_unless
from .node import DIRECTORY, NotReady
from .processes import running_program
from .speakers import CHAT, MESSAGES, RESPONSES
from .terminal import in_terminal

RUNS = 10
AT_ONCE = 3
STOP_MESSAGE = f'<**stopMessage:"{GO_ON}",{REPEATS}**>'
# Long enough for the reminder to come due, and the job to run, before the sub-agent is started.
BEFORE_SUB_AGENT_MS = 3000
CLAUDE = agent(test_claude_code.PACKAGE, test_claude_code.SCRIPT)
CODEX = agent(test_codex.PACKAGE, test_codex.SCRIPT)


@dataclass(frozen=True, slots=True)
class Story:
    """One run of one agent."""

    agent: str
    starts_sub_agent: bool
    run: int

    @property
    def main(self) -> str:
        """A word that only the person's prompt has."""
        return f"MAIN-{self.agent}-{self.starts_sub_agent}-{self.run}"

    @property
    def model(self) -> str:
        """A model of its own, by which its requests can be told apart."""
        kind = "sub" if self.starts_sub_agent else "plain"
        return f"{self.agent}-{kind}-{self.run}@{AGENTS[self.agent].speaks}"

    def prompt(self) -> str:
        """What the person types."""
        steps = ['demo: say="First."']
        if self.starts_sub_agent:
            tool, arguments = AGENTS[self.agent].sub_agent
            called = msgspec.json.encode(arguments).decode()
            steps = [
                f"demo: first_ms={BEFORE_SUB_AGENT_MS} tool={tool} args={called}",
                'demo: say="Main is done."',
            ]
        return "\n".join((f"{self.main} {STOP_MESSAGE}", *steps))


@dataclass(frozen=True, slots=True)
class Agent:
    """How an agent is used, and which tool of it starts a sub-agent."""

    speaks: str
    sub_agent: tuple[str, Mapping[str, object]]
    play: Callable[[Story, House], str]
    """Plays a story to its end, and returns the session's id."""
    side_calls: int = 0
    """How many requests come before the conversation."""


def wait_for(story: Story, house: House, session: str) -> None:
    """Have something wait for the session: at once, or while the main turn is being answered."""
    if story.starts_sub_agent:
        until(lambda: any(is_main(story, heard) for heard in house.heard(story.model)))
    house.put_reminder(session)
    house.put_result(session)


def until_ended(story: Story, house: House, exchanges: int) -> None:
    """Wait until so many exchanges of the story have ended."""
    until(lambda: len(house.gateway.exchanges(model=story.model)) >= exchanges)


def is_main(story: Story, heard: Heard) -> bool:
    """Tell whether a request is of the person's conversation."""
    return story.main in heard.text and heard.has_client_tools()


def home_of(story: Story, house: House) -> Path:
    """Make an empty home for the agent."""
    home = house.place / story.model
    (home / "work").mkdir(parents=True)
    return home


def claude_environment(story: Story, house: House) -> dict[str, str]:
    """Configure Claude Code as the documentation says."""
    values = {HERE: house.gateway.url, "demo": story.model}
    return {n: values.get(v, v) for n, v in exported(test_claude_code.NAME).items()}


def play_claude_print(story: Story, house: House) -> str:
    """Use `claude -p`."""
    session, home = str(uuid.uuid4()), home_of(story, house)
    named = ("-p", "--session-id", session, *test_claude_code.OPTIONS, "Agent", "--")
    command = Command((*CLAUDE, *named, story.prompt()), claude_environment(story, house))
    if not story.starts_sub_agent:
        wait_for(story, house, session)
        run(command, home)
        return session
    with meanwhile(lambda: wait_for(story, house, session)):
        run(command, home)
    return session


def play_claude_interactive(story: Story, house: House) -> str:
    """Use Claude Code as a person does: in a terminal, with a title asked for first."""
    session, home = str(uuid.uuid4()), home_of(story, house)
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["none"], "rejected": []},
        "projects": {str(home / "work"): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_bytes(msgspec.json.encode(known))
    named = ("--session-id", session, "--permission-mode", "default", "--allowedTools", "Agent")
    arguments = (*CLAUDE, *named, "--", story.prompt())
    environment = {**surroundings(home), **claude_environment(story, house)}
    if not story.starts_sub_agent:
        wait_for(story, house, session)
    with in_terminal(arguments, environment, home / "work"):
        if story.starts_sub_agent:
            wait_for(story, house, session)
        # Title, conversation; with a sub-agent: title, main, sub-agent, main, main (it is told).
        until_ended(story, house, 5 if story.starts_sub_agent else 2)
    return session


def codex_session(story: Story, house: House, config: str, environment: Mapping[str, str]) -> str:
    """Make a session with Codex, then go on in it with another process."""
    home = home_of(story, house)
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(config)
    begin, *options = test_codex.OPTIONS
    first = Command((*CODEX, begin, *options, 'demo: say="Hello." delay_ms=0'), environment)
    session: str = run(first, home)[0]["thread_id"]
    more = (*CODEX, begin, *options, "resume", session, story.prompt())
    if not story.starts_sub_agent:
        wait_for(story, house, session)
        run(Command(more, environment), home)
        return session
    with meanwhile(lambda: wait_for(story, house, session)):
        run(Command(more, environment), home)
    return session


def play_codex(story: Story, house: House) -> str:
    """Use Codex with a provider of its own, as the documentation says."""
    text = documented(test_codex.NAME, "toml").replace(HERE, house.gateway.url)
    text = text.replace('model = "demo"', f'model = "{story.model}"')
    return codex_session(story, house, text, exported(test_codex.NAME))


def play_codex_base_url(story: Story, house: House) -> str:
    """Use Codex with nothing but `openai_base_url`: it tries a WebSocket first."""
    text = f'model = "{story.model}"\nopenai_base_url = "{house.gateway.url}/v1"\n'
    return codex_session(story, house, text, {"CODEX_API_KEY": "none"})


def play_opencode(story: Story, house: House) -> str:
    """Use opencode by its server, as its terminal and its editors do."""
    home = home_of(story, house)
    config = home / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True)
    text = documented("opencode", "json").replace(HERE, house.gateway.url)
    config.write_text(text.replace("demo", story.model))
    arguments = (opencode(), "serve", "--port", "0")
    with running_program(arguments, surroundings(home), home) as url:
        session: str = ask(f"{url}/session", {})["id"]
        message = {"parts": [{"type": "text", "text": story.prompt()}]}
        send = f"{url}/session/{session}/message"
        if not story.starts_sub_agent:
            wait_for(story, house, session)
            ask(send, message)
        else:
            with meanwhile(lambda: wait_for(story, house, session)):
                ask(send, message)
    return session


def opencode() -> str:
    """Find the program of opencode that starts on this machine."""
    found = sorted((DIRECTORY / "node_modules").glob("opencode-linux-*/bin/opencode"))
    for program in found:
        try:
            check((str(program),))
        except NotReady:
            continue
        return str(program)
    raise NotReady(f"opencode does not start: run npm ci --include=optional in {DIRECTORY}.")


CLAUDE_SUB = (
    "Agent",
    {"description": "count", "prompt": SUB_PROMPT, "subagent_type": "general-purpose"},
)
CODEX_SUB = ("multi_agent_v1.spawn_agent", {"message": SUB_PROMPT})
OPENCODE_SUB = (
    "task",
    {"description": "count", "prompt": SUB_PROMPT, "subagent_type": "general"},
)
AGENTS = {
    "claude-interactive": Agent(MESSAGES, CLAUDE_SUB, play_claude_interactive, side_calls=1),
    "claude-p": Agent(MESSAGES, CLAUDE_SUB, play_claude_print),
    "codex": Agent(RESPONSES, CODEX_SUB, play_codex),
    "codex-base-url": Agent(RESPONSES, CODEX_SUB, play_codex_base_url),
    "opencode": Agent(CHAT, OPENCODE_SUB, play_opencode, side_calls=1),
}
KINDS = [(name, sub) for name in AGENTS for sub in (False, True)]

Played = Mapping[Story, tuple[str, House]]


def see(story: Story, house: House, session: str) -> None:
    """See who got what: the counts are the upstream's and the session's, not the gateway's log."""
    heard = house.heard(story.model)
    main = {request.exchange for request in heard if is_main(story, request)}
    others = [request for request in heard if request.exchange not in main]
    for wanted in (f'[scheduled task:"{TASK}"'.replace('"', '\\"'), RESULT):
        carried = {request.exchange for request in heard if wanted in request.text}
        assert len(carried) == 1, f"{wanted} was carried by {carried} of {main}"
        assert carried <= main, f"{wanted} was not carried by the conversation"
    continued = [request for request in heard if newest_text(request) == GO_ON]
    assert len(continued) == REPEATS
    assert {request.exchange for request in continued} <= main
    state = house.ask(f"/api/sessions/{session}")
    assert state["stopMessage"]["used"] == REPEATS
    assert "stopMessage" not in "".join(request.text for request in heard)
    titles = [request for request in others if story.main in request.text]
    assert len(titles) >= AGENTS[story.agent].side_calls
    sub_agents = [request for request in others if "Sub agent here" in request.text]
    assert any(story.main not in s.text for s in sub_agents) is story.starts_sub_agent


def newest_text(heard: Heard) -> str:
    """Return the text of the newest message, without what the gateway put after it."""
    items = heard.body.get("messages") or heard.body.get("input")
    content = items[-1]["content"] if items else ""
    return content if isinstance(content, str) else content[-1].get("text", "")


@pytest.fixture(scope="module")
def programs(node: None) -> None:
    """See whether the agents start."""
    for command in (CLAUDE, CODEX):
        fail_unless(partial(check, command))
    fail_unless(opencode)


def play_all(stories: list[Story], place: Path) -> Played:
    """Play stories, a few at once, all with one gateway."""
    with open_house((story.model for story in stories), place) as house:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            plays = {s: threads.submit(AGENTS[s.agent].play, s, house) for s in stories}
            for story, played in plays.items():
                see(story, house, played.result())
    return {}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.usefixtures("programs")
def test_the_main_conversation_gets_all_of_it_once(name: str, tmp_path: Path) -> None:
    play_all([Story(name, sub, 0) for sub in (False, True)], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name, sub", KINDS)
@pytest.mark.usefixtures("programs")
def test_ten_runs_out_of_ten(name: str, sub: bool, tmp_path: Path) -> None:
    play_all([Story(name, sub, run) for run in range(RUNS)], tmp_path)
