"""What a person can do at the prompt of `holdgate chat`: edit, find lines again, give commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.cli.prompt import MOST_KEPT
from tests.test_command_line import holdgate, serving

from .gate import Gate
from .seat import CTRL_D, ROOT, Seat, seated

LEFT, UP = "\x1b[D", "\x1b[A"
AGENT = {"id": "helper", "model": "demo", "tools": ["clock"]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"HOLDGATE_STORE__URL": "memory:", "HOLDGATE_AGENTS": json.dumps([AGENT])}
    with serving(tmp_path_factory.mktemp("gate"), **settings) as gate:
        yield gate.url


async def asked(gate: Gate, answer: str = "Yes.") -> str:
    """Answer the next request; return what was asked."""
    exchange = await gate.asked()
    await exchange.say(answer)
    await exchange.end()
    return str(exchange.body["messages"][-1]["content"])


async def test_a_line_can_be_edited_before_it_is_sent(gate: Gate, seat: Seat) -> None:
    seat.type(f"helo{LEFT}l\n")
    assert await asked(gate) == "hello"


async def test_lines_are_found_again_also_in_the_next_chat(gate: Gate, tmp_path: Path) -> None:
    here: dict[str, Any] = {"XDG_STATE_HOME": str(tmp_path)}
    async with seated("chat", "--url", gate.url, **here) as seat:
        await seat.enter("one")
        assert await asked(gate) == "one"
        await seat.sees("Yes.")
        await seat.prompted()
        seat.type(f"{UP}\n")
        assert await asked(gate) == "one"
    kept = tmp_path / "holdgate/chat_history"
    assert kept.read_text().splitlines() == ["one"]
    assert kept.stat().st_mode & 0o777 == 0o600
    async with seated("chat", "--url", gate.url, **here) as seat:
        await seat.prompted()
        seat.type(f"{UP}\n")
        assert await asked(gate) == "one"


async def test_only_the_last_lines_are_kept(gate: Gate, tmp_path: Path) -> None:
    kept = tmp_path / "holdgate/chat_history"
    kept.parent.mkdir()
    kept.write_text("".join(f"line {number}\n" for number in range(MOST_KEPT + 500)))
    async with seated("chat", "--url", gate.url, XDG_STATE_HOME=str(tmp_path)) as seat:
        await seat.enter("new")
        await asked(gate)
    lines = kept.read_text().splitlines()
    assert len(lines) == MOST_KEPT
    assert lines[-2:] == [f"line {MOST_KEPT + 499}", "new"]


async def test_nothing_is_kept_if_that_is_not_wanted(gate: Gate, tmp_path: Path) -> None:
    wish = ("chat", "--url", gate.url, "--no-history")
    async with seated(*wish, XDG_STATE_HOME=str(tmp_path)) as seat:
        await seat.enter("secret")
        await asked(gate)
        await seat.sees("Yes.")
    assert list(tmp_path.iterdir()) == []


async def test_a_place_that_cannot_be_written_is_told_once(gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    async with seated("chat", "--url", gate.url, XDG_STATE_HOME=str(file)) as seat:
        for _ in range(2):
            await seat.enter("hi")
            await asked(gate)
            await seat.sees("Yes.")
        await seat.prompted()
    assert seat.written.count("what you type is not saved: ") == 1


async def test_without_readline_the_chat_works_as_well(gate: Gate, tmp_path: Path) -> None:
    tmp_path.joinpath("readline.py").write_text("raise ImportError\n")
    path = f"{tmp_path}:{ROOT}"
    async with seated("chat", "--url", gate.url, PYTHONPATH=path) as seat:
        await seat.enter("hi")
        assert await asked(gate) == "hi"
        await seat.sees("Yes.")
        await seat.prompted()
        seat.type(CTRL_D)
        assert await seat.ended() == 0


async def test_words_are_not_broken_at_the_edge_of_the_terminal(gate: Gate) -> None:
    async with seated("chat", "--url", gate.url, columns=25) as seat:
        await seat.enter("hi")
        exchange = await gate.asked()
        for piece in ("The quick", " brown f", "ox jum", "ps over the la", "zy dog."):
            await exchange.say(piece)
        await exchange.end()
        await seat.sees("lazy dog.")
    shown = [line.rstrip() for line in seat.lines]
    assert shown[shown.index("> hi") + 1 :][:2] == [
        "The quick brown fox",
        "jumps over the lazy dog.",
    ]


async def test_commands_are_listed_and_obeyed(gate: Gate, seat: Seat) -> None:
    await seat.enter("/help")
    for name in ("/help", "/model NAME", "/quit"):
        await seat.reads(f"\n{name} ")
    await seat.enter("/model")
    await seat.sees("scripted answers; there are scripted.")
    await seat.enter("/model other")
    await seat.sees("other answers from now on.")
    await seat.enter("hi")
    exchange = await gate.asked()
    assert exchange.body["model"] == "other"
    await exchange.end()
    await seat.enter("/nonsense now")
    await seat.sees("holdgate: there is no command /nonsense; /help lists the commands.")
    await seat.enter("/quit")
    assert await seat.ended() == 0


@pytest.mark.parametrize("line", [" /help", "/etc/hosts has what?", "//", "/Help"])
async def test_other_lines_with_a_slash_are_sent(line: str, gate: Gate, seat: Seat) -> None:
    await seat.enter(line)
    assert await asked(gate) == line


async def test_an_unknown_model_is_refused_in_the_chat(url: str) -> None:
    async with seated("chat", "--url", url, "--model", "demo") as seat:
        await seat.enter("/model dmo")
        await seat.reads("holdgate: No model is called 'dmo'")
        await seat.enter("/model")
        await seat.reads("demo answers; there are demo")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (("--model", "dmo"), "holdgate: No model is called 'dmo'"),
        (("--agent", "hlper"), "holdgate: there is no agent 'hlper'; there are helper."),
    ],
)
def test_who_is_not_there_is_told_at_the_start(
    wish: tuple[str, ...], says: str, url: str, tmp_path: Path
) -> None:
    result = holdgate("chat", "--url", url, *wish, cwd=tmp_path, text="hi\n")
    assert result.returncode == 1
    assert result.stderr.startswith(says)
    assert result.stdout == ""


async def test_an_agent_goes_on_with_its_conversation(url: str) -> None:
    for said in ("One.", "Two."):
        async with seated("chat", "--url", url, "--agent", "helper") as seat:
            await seat.reads(f"helper at {url}, session helper; ")
            await seat.enter(f'demo: say="{said}"')
            await seat.sees(said)
            await seat.enter("/model demo")
            await seat.sees("holdgate: the model of the agent helper is set in the configuration.")
    kept = await fetch(f"{url}/api/sessions/helper")
    assert [m["content"] for m in kept["messages"] if m["role"] == "assistant"] == ["One.", "Two."]


async def test_an_agents_hold_counts_down_and_its_trouble_is_told(url: str) -> None:
    wish = ("chat", "--url", url, "--agent", "helper", "--session", "tea")
    async with seated(*wish) as seat:
        await seat.enter("remind me in 2 seconds to drink tea")
        await seat.reads("holding, ")
        await seat.sees("It is time: drink tea.")
        await seat.enter("demo: status=500 message=Ouch")
        await seat.reads("holdgate: ")
        await seat.prompted()


async def fetch(url: str) -> dict[str, list[dict[str, str]]]:
    async with httpx.AsyncClient(trust_env=False) as client:
        found: dict[str, list[dict[str, str]]] = (await client.get(url)).json()
        return found
