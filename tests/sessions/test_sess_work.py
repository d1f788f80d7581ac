"""Whether work is left: what the `bd` task tracker says, or the model's own words."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from gateway.sessions.task_tracker import LIMIT_SECONDS, TaskTracker
from tests.gateway.wire import ask_of
from tests.run import SOON, Running, in_process, until, upstreams_of, within
from tests.sessions.process import process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    follow_ups,
    model,
    notes_of,
    stop_message,
    talk,
    text_of,
)
from tests.wire.fake import fake_upstream

DONE = "All tasks are done."
MORE = "Next I will write the tests."
SCRIPT = """#!/bin/sh
echo "$*" >> "{place}/asked"
[ -f "{place}/$2" ] || exit 1
cat "{place}/$2"
"""


class Bd:
    """A `bd` that says what the test wants, and notes what it was asked."""

    def __init__(self, place: Path, answers: Mapping[str, str], script: str = SCRIPT) -> None:
        self.place = place
        self.now = 100.0
        self.program = place / "bd"
        self.program.write_text(script.format(place=place))
        self.program.chmod(0o755)
        for name, output in answers.items():
            place.joinpath(name).write_text(output)

    @property
    def asked(self) -> list[str]:
        """What it was asked, call by call."""
        log = self.place / "asked"
        return log.read_text().splitlines() if log.exists() else []

    def tracks(self, gate: Running) -> None:
        """Be the tracker of a gateway."""
        gate.gateway.parts.sessions.services.tracker = TaskTracker(
            lambda: self.now, str(self.place)
        )


def gate_in(mode: str, *texts: str, bd_dir: str = "/") -> AbstractAsyncContextManager[Running]:
    return in_process(model(*texts), stop_message__bd_mode=mode, stop_message__bd_dir=bd_dir)


LIST = "--no-db list --status in_progress --json"
READY = "--no-db ready --json"
SAID: dict[str, tuple[Mapping[str, str], list[str], bool | None]] = {
    "something is in progress": ({"list": '[{"id":"a"}]', "ready": "[]"}, [LIST], True),
    "something is ready": ({"list": "[]", "ready": '[{"id":"a"}]'}, [LIST, READY], True),
    "nothing is left": ({"list": "[]", "ready": " [ ]\n"}, [LIST, READY], False),
    "nothing, as null": ({"list": "null", "ready": "null"}, [LIST, READY], False),
    "it fails": ({}, [LIST], None),
    "it fails at the second question": ({"list": "[]"}, [LIST, READY], None),
    "it says no JSON": ({"list": "3 issues in progress"}, [LIST], None),
    "it says nothing": ({"list": ""}, [LIST], None),
    "it says something else": ({"list": '{"error":"no database"}'}, [LIST], None),
    "it says no text": ({"list": "[\udcff"}, [LIST], None),
}


@pytest.mark.parametrize("mode", ["auto", "runtime"])
@pytest.mark.parametrize("name", SAID)
async def test_what_bd_says_decides(tmp_path: Path, name: str, mode: str) -> None:
    """The model always says that all is done; only `auto` believes it, and only for want of `bd`."""
    answers, asked, left = SAID[name]
    bd = Bd(tmp_path, {})
    for question, output in answers.items():
        tmp_path.joinpath(question).write_bytes(output.encode(errors="surrogateescape"))
    fires = mode == "runtime" if left is None else left
    async with gate_in(mode, DONE) as gate:
        bd.tracks(gate)
        await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == (3 if fires else 0)
        assert bd.asked == asked
        shown = await stop_message(gate)
        assert shown["armed"] is not fires
        rests = notes_of(gate, "stop_message_rests")
        source = "bd lists none" if left is False else "the answer says so"
        assert [note["why"] for note in rests] == [] if fires else [f"no work is left: {source}"]


@pytest.mark.parametrize("mode", ["auto", "heuristic"])
@pytest.mark.parametrize(
    "said, fires",
    [
        (DONE, False),
        (f"I closed the last one.\n\n{DONE} Bye.", False),
        ("所有任务都已完成。", False),
        ("Not all tasks are done.", True),
        ("Once all tasks are done I will stop.", True),
        ("Almost all tasks are completed; two remain.", True),
        ("并非所有任务都已完成。", True),
        ("所有任务完成后我会汇报。", True),
        (MORE, True),
    ],
)
async def test_without_bd_the_models_words_decide(said: str, fires: bool, mode: str) -> None:
    async with gate_in(mode, said) as gate:
        gate.gateway.parts.sessions.services.tracker = TaskTracker(time.monotonic, "/nowhere")
        await gate.ask(talk(GO_ON), SESSION)
        assert bool(follow_ups(gate.requests)) is fires


async def test_it_goes_on_until_the_model_says_that_all_is_done() -> None:
    async with gate_in("heuristic", MORE, "And the next.", DONE, "late") as gate:
        answer = await gate.ask(talk('<**stopMessage:"go on",9**>'), SESSION)
        assert text_of(answer) == f"{MORE}\n\nAnd the next.\n\n{DONE}"
        shown = await stop_message(gate)
        assert (shown["used"], shown["armed"]) == (2, True)


async def test_heuristic_asks_no_program(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {"list": "[]", "ready": "[]"})
    async with gate_in("heuristic", MORE) as gate:
        bd.tracks(gate)
        await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == 3
    assert not bd.asked


@pytest.mark.parametrize("said", [DONE, MORE])
async def test_auto_without_a_directory_asks_no_program(tmp_path: Path, said: str) -> None:
    bd = Bd(tmp_path, {"list": "[]", "ready": "[]"})
    async with gate_in("auto", said, bd_dir="") as gate:
        bd.tracks(gate)
        await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == (3 if said == MORE else 0)
    assert not bd.asked


HERE = """#!/bin/sh
echo "$*" >> "{place}/asked"
cat "./$2"
"""


async def test_bd_is_asked_in_its_directory(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {}, HERE)
    project = tmp_path / "project"
    project.mkdir()
    for question in ("list", "ready"):
        project.joinpath(question).write_text("[]")
    for where, asked, fires in ((str(project), [LIST, READY], False), ("/nowhere", [], True)):
        async with gate_in("auto", MORE, bd_dir=where) as gate:
            tracker = TaskTracker(lambda: bd.now, str(tmp_path), where)
            gate.gateway.parts.sessions.services.tracker = tracker
            await gate.ask(talk(GO_ON), SESSION)
            assert bool(follow_ups(gate.requests)) is fires
            assert bd.asked == asked
        tmp_path.joinpath("asked").unlink(missing_ok=True)


WHY = ', "why": "stopMessage was not sent: no work is left: the answer says so"}'


async def test_the_client_is_told_that_it_was_not_sent() -> None:
    """By a note, if it asked for notes."""
    async with gate_in("heuristic", DONE) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION, "x-holdgate-notes: 1")
        assert f': holdgate {{"state": "closing", "turn": 1{WHY}' in answer.body.decode()
        (note,) = notes_of(gate, "stop_message_rests")
        assert note["why"] == "no work is left: the answer says so"
        assert (await stop_message(gate))["armed"] is True
        answer = await gate.ask(talk("hi"), "x-session-id: t", "x-holdgate-notes: 1")
        assert b"why" not in answer.body


async def test_runtime_without_bd_goes_on() -> None:
    async with gate_in("runtime", DONE) as gate:
        gate.gateway.parts.sessions.services.tracker = TaskTracker(time.monotonic, "/nowhere")
        await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == 3


async def test_what_it_said_holds_for_five_seconds(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {"list": "[1]"})
    async with gate_in("auto", MORE) as gate:
        bd.tracks(gate)
        await gate.ask(talk(GO_ON), SESSION)
        assert bd.asked == [LIST]
        bd.now += 4.9
        await gate.ask(talk(GO_ON), "x-session-id: t")
        assert bd.asked == [LIST]
        bd.now += 0.1
        await gate.ask(talk(GO_ON), "x-session-id: u")
        assert bd.asked == [LIST] * 2
    assert len(follow_ups(gate.requests)) == 9


async def test_a_crowd_asks_it_once(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {"list": "[]", "ready": "[]"})
    async with gate_in("auto", MORE) as gate:
        bd.tracks(gate)
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(gate.ask, talk(GO_ON), f"x-session-id: {number}")
        assert len(gate.requests) == 20
    assert bd.asked == [LIST, READY]


SLOW = """#!/bin/sh
sleep 60 &
echo $! > "{place}/child"
echo "$*" >> "{place}/asked"
wait
"""


def is_running(pid: int) -> bool:
    """Whether a process is there, and not just waiting for its parent to look at it."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("mode", ["auto", "runtime"])
async def test_one_that_takes_too_long_is_not_waited_for(tmp_path: Path, mode: str) -> None:
    bd = Bd(tmp_path, {}, SLOW)
    async with gate_in(mode, DONE) as gate:
        bd.tracks(gate)
        async with within(LIMIT_SECONDS + 2):
            await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == (3 if mode == "runtime" else 0)
        assert bd.asked == [LIST]
        child = int(tmp_path.joinpath("child").read_text())
        await until(lambda: not is_running(child))


async def test_who_leaves_while_it_is_asked_is_followed_up_no_more(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {}, SLOW)
    async with gate_in("runtime", MORE) as gate:
        bd.tracks(gate)
        client = await gate.start(talk(GO_ON), SESSION)
        await until(lambda: bool(bd.asked))
        client.leave()
        async with within(SOON):
            await gate.quiet()
        assert len(gate.requests) == 1
        assert (await stop_message(gate))["used"] == 0
        child = int(tmp_path.joinpath("child").read_text())
        await until(lambda: not is_running(child))


async def test_a_program_that_cannot_be_run_is_like_none(tmp_path: Path) -> None:
    bd = Bd(tmp_path, {}, "#!/nowhere/sh\n")
    async with gate_in("auto", MORE) as gate:
        bd.tracks(gate)
        await gate.ask(talk(GO_ON), SESSION)
        assert len(follow_ups(gate.requests)) == 3


async def test_cleared_while_it_is_asked_nothing_is_sent(tmp_path: Path) -> None:
    script = '#!/bin/sh\necho "$*" >> "{place}/asked"\ncat "{place}/go"\n'
    bd, answer = Bd(tmp_path, {}, script), tmp_path / "go"
    os.mkfifo(answer)
    async with gate_in("runtime") as gate:
        bd.tracks(gate)
        client = await gate.start(talk(GO_ON), SESSION)
        await until(lambda: bool(bd.asked))
        await gate.ask(talk("x", "<**clear**>", n=2), SESSION)
        await anyio.to_thread.run_sync(answer.write_text, "[1]")
        assert text_of(await client.answer()) == "answer 1"
        assert not follow_ups(gate.requests)


async def test_a_gateway_finds_it_on_its_path(tmp_path: Path) -> None:
    """The whole way: a process, its PATH, and the mode by the name the seeds gave it."""
    bd = Bd(tmp_path, {"list": "[]", "ready": "[]"})
    async with fake_upstream(model(MORE)) as upstream:
        tables = upstreams_of(upstream.port)
        settings = {f"HOLDGATE_{name.upper()}": json.dumps(rows) for name, rows in tables.items()}
        settings |= {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        settings |= {"ROUTECODEX_STOPMESSAGE_BD_MODE": "auto"}
        settings |= {"HOLDGATE_STOP_MESSAGE__BD_DIR": str(tmp_path)}
        async with process(tmp_path, settings) as gate:
            client = await gate.connect()
            await client.send(ask_of(talk(GO_ON), SESSION))
            assert text_of(await client.answer()) == MORE
    assert bd.asked == [LIST, READY]
