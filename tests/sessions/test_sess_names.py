"""Session ids are data, never paths; and one bad file hurts only itself."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import pytest

from gateway.stores.disk import ROWS_FILE, ROWS_MARKER
from tests.gateway.wire import get
from tests.run import Running, in_process, until
from tests.sessions.talk import (
    GO_ON,
    document,
    kept,
    look,
    model,
    notes_of,
    stop_message,
    talk,
    text_of,
    told,
)
from tests.sessions.test_sess_routing import ALICE, BOB, OWNERS

CUT = model(("cut", "length"))
EMOJI = "🧊" * 50
NAMES = [
    "../../x",
    "..",
    ".",
    ".hidden",
    "/etc/passwd",
    "a/b",
    "a_b",
    "a\\b",
    "A_B",
    "ntp-state",
    "ntp-state.json",
    "nul\u2028line",
    "x" * 96,
    "x" * 97,
    "x" * 256,
    EMOJI,
    "a b",
    "a~0123456789abcdef01234567",
    "con.json",
    "%2e%2e%2f",
    "conversation:a_b",
]


def files(directory: Path) -> list[Path]:
    """List all files there are, however deep, beside those that belong to no session."""
    found = [Path(root, name) for root, _, names in os.walk(directory) for name in names]
    others = (".lock", ROWS_FILE, ROWS_MARKER, "sign-in-secret")
    return [path for path in found if path.name not in others]


def text(name: str) -> str:
    """Write a message that only one session sends."""
    return f'<**stopMessage:"{name.encode().hex()}",2**> hi'


async def test_every_id_has_a_file_of_its_own_inside_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "kept"
    async with in_process(CUT, **kept(directory)) as gate:
        for name in NAMES:
            answer = await gate.ask(
                talk(text(name)), f"x-session-id: {name}".encode().decode("latin-1")
            )
            assert told(answer) == "set"
            shown = answer.headers["x-holdgate-session"]
            assert name in (shown, unquote(shown))
    async with in_process(CUT, **kept(directory)) as gate:
        for name in NAMES:
            assert (await stop_message(gate, name))["text"] == name.encode().hex()
        listed = (await gate.fetch(get("/api/sessions"))).json["sessions"]
    assert sorted(item["sessionId"] for item in listed) == sorted(NAMES)
    found = files(tmp_path)
    assert len(found) == len(NAMES)
    assert {path.parent for path in found} == {directory / "session"}
    assert {json.loads(path.read_bytes())["sessionId"] for path in found} == set(NAMES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "session").stat().st_mode) == 0o700


async def test_plain_ids_are_the_names_of_their_files(tmp_path: Path) -> None:
    async with in_process(CUT, **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), "x-session-id: My.session_1-2")
    assert [path.name for path in files(tmp_path)] == ["My.session_1-2.json"]


async def test_two_owners_with_one_id(tmp_path: Path) -> None:
    async with in_process(CUT, tables=OWNERS, **kept(tmp_path)) as gate:
        for key, owner in ((ALICE, "alice"), (BOB, "bob")):
            await gate.ask(talk(text(owner)), "x-session-id: same", key)
        for key, owner in ((ALICE, "alice"), (BOB, "bob")):
            shown = (await look(gate, "same", key)).json
            assert shown["stopMessage"]["text"] == owner.encode().hex()
    owners = [json.loads(path.read_bytes())["owner"] for path in files(tmp_path)]
    assert sorted(owners) == ["alice", "bob"]


async def test_the_file_of_another_owner_is_not_taken_over(tmp_path: Path) -> None:
    """Where keys were brought in later, what was local is not theirs; and a copied file is not."""
    async with in_process(CUT, **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), "x-session-id: s")
    async with in_process(CUT, tables=OWNERS, **kept(tmp_path)) as gate:
        await gate.ask(talk(text("alice")), "x-session-id: s", ALICE)
        (hers,) = [path for path in files(tmp_path) if "~" in path.name]
        assert (await look(gate, "s", BOB)).status == 404
    tmp_path.joinpath("session", "t.json").write_bytes(hers.read_bytes())
    async with in_process(CUT, **kept(tmp_path)) as gate:
        assert (await look(gate, "t")).status == 404
        assert (await stop_message(gate, "s"))["text"] == "go on"


@pytest.mark.parametrize("where", ["header", "metadata"])
async def test_an_id_that_is_too_long_is_a_bad_request(where: str) -> None:
    async with in_process(CUT) as gate:
        for length, status in ((256, 200), (257, 400), (5000, 400)):
            name = "é" * (length // 2) + "x" * (length % 2)
            if where == "header":
                header = f"x-session-id: {name}".encode().decode("latin-1")
                answer = await gate.ask(talk(GO_ON), header)
            else:
                answer = await gate.ask(talk(GO_ON, metadata={"session_id": name}))
            assert answer.status == status
        assert "256 bytes" in answer.error["message"]
        assert len(gate.requests) == 1


def _state(session: str, **fields: Any) -> dict[str, Any]:
    stop = {
        "stopMessageText": "go on",
        "stopMessageMaxRepeats": 1,
        "stopMessageUsed": 0,
        "stopMessageUpdatedAt": 5,
    }
    return {"version": 1, "owner": "local", "sessionId": session, **stop, **fields}


def _bytes(session: str, **fields: Any) -> bytes:
    return json.dumps(_state(session, **fields)).encode()


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


CORRUPTIONS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(_bytes(path.stem)[:-20]),
    "noise": lambda path: path.write_bytes(os.urandom(300)),
    "list": lambda path: path.write_bytes(b"[" + _bytes(path.stem) + b"]"),
    "version": lambda path: path.write_bytes(_bytes(path.stem, version="one")),
    "owner": lambda path: path.write_bytes(_bytes(path.stem, owner="alice")),
    "session": lambda path: path.write_bytes(_bytes("another")),
    "deep": lambda path: path.write_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "link": _link,
    "count": lambda path: path.write_bytes(_bytes(path.stem, stopMessageUsed=-1)),
    "types": lambda path: path.write_bytes(_bytes(path.stem, stopMessageText=["go"])),
    "seen": lambda path: path.write_bytes(_bytes(path.stem, directives=[])),
    "routing": lambda path: path.write_bytes(_bytes(path.stem, routing={"allow": []})),
}
EACH = 39


async def test_five_hundred_corrupt_files_hurt_only_themselves(tmp_path: Path) -> None:
    directory = tmp_path / "session"
    directory.mkdir()
    bad = [f"{kind}-{number}" for kind in CORRUPTIONS for number in range(EACH)]
    good = [f"good-{number}" for number in range(20)]
    assert len(bad) >= 500
    for name in bad:
        CORRUPTIONS[name.partition("-")[0]](directory / f"{name}.json")
    for name in good:
        directory.joinpath(f"{name}.json").write_bytes(_bytes(name))
    async with in_process(model(), **kept(tmp_path)) as gate:
        await served(gate, [*bad[::10], *good], followed=good)
        listed = (await gate.fetch(get("/api/sessions"))).json["sessions"]
        assert sorted(item["sessionId"] for item in listed) == sorted(good)
        await until(lambda: gate.gateway.metrics.quarantined >= len(bad))
        assert len(notes_of(gate, "quarantined")) == len(bad)
        metrics = (await gate.fetch(get("/metrics"))).body
        assert b"holdgate_quarantined_total %d.0" % len(bad) in metrics
        assert told(await gate.ask(talk(GO_ON), f"x-session-id: {bad[0]}")) == "set"
    left = {path.name.partition(".corrupt-")[0] for path in directory.glob("*.corrupt-*")}
    assert left == set(bad)
    assert {path.stem for path in directory.glob("*.json")} == {bad[0], *good}


async def served(gate: Running, sessions: list[str], followed: list[str]) -> None:
    """Ask in all these sessions at once; only those with a stop message of one are followed up."""

    async def ask(session: str) -> None:
        answer = await gate.ask(talk("hi"), f"x-session-id: {session}")
        assert text_of(answer).count("answer") == 1 + (session in followed)

    async with anyio.create_task_group() as tasks:
        for session in sessions:
            tasks.start_soon(ask, session)


async def test_a_document_of_a_newer_holdgate_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.joinpath("session").mkdir()
    path = tmp_path.joinpath("session", "s.json")
    path.write_bytes(_bytes("s", version=2))
    async with in_process(model(), **kept(tmp_path)) as gate:
        answer = await gate.ask(talk(GO_ON), "x-session-id: s")
        assert text_of(answer) == "answer 1"
        assert "not stored" in told(answer)
        assert "newer" in told(answer)
        shown = await look(gate)
        assert (shown.status, shown.error["code"]) == (503, "store_unavailable")
    assert path.read_bytes() == _bytes("s", version=2)


@pytest.mark.parametrize("at", [2**62, 10**30])
async def test_a_time_beyond_all_calendars_can_be_shown(tmp_path: Path, at: int) -> None:
    tmp_path.joinpath("session").mkdir()
    state = _bytes("s", stopMessageUpdatedAt=at, stopMessageLastUsedAt=at, updatedAtMs=2**62)
    tmp_path.joinpath("session", "s.json").write_bytes(state)
    async with in_process(model(), **kept(tmp_path)) as gate:
        assert (await stop_message(gate))["updatedAt"].startswith("9999-12-31")
        page = (await gate.fetch(get("/api/sessions?limit=1"))).json
        assert page["sessions"][0]["updatedAt"].startswith("9999-12-31")
        rest = await gate.fetch(get(f"/api/sessions?after={page['next']}"))
        assert rest.json["sessions"] == []
        assert text_of(await gate.ask(talk("hi"), "x-session-id: s")) == "answer 1\n\nanswer 2"
    assert document(tmp_path)["stopMessageUpdatedAt"] == at


async def test_a_file_changed_by_hand_counts_at_once(tmp_path: Path) -> None:
    async with in_process(model(), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), "x-session-id: s")
        state = {**document(tmp_path), "stopMessageUsed": 2, "stopMessageText": "by hand"}
        tmp_path.joinpath("session", "s.json").write_text(json.dumps(state))
        assert text_of(await gate.ask(talk("hi"), "x-session-id: s")) == "answer 5\n\nanswer 6"
        assert b"by hand" in gate.requests[-1].body
