"""What the operator says about stop messages: caps, limits, files, or none at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.run import in_process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    assistant,
    follow_ups,
    kept,
    look,
    model,
    newest,
    notes_of,
    stop_message,
    talk,
    text_of,
    told,
)


@pytest.mark.parametrize("headers", [(SESSION,), ()], ids=["in a session", "without one"])
async def test_a_larger_count_is_lowered_and_the_log_says_so(headers: tuple[str, ...]) -> None:
    async with in_process(model(), stop_message__max_repeats=2) as gate:
        assert told(await gate.ask(talk('<**stopMessage:"x",9**>'), *headers)) == "set"
        assert len(follow_ups(gate.requests)) == 2
        (note,) = notes_of(gate, "stop_message_lowered")
        assert note["repeats"] == 2


async def test_a_count_within_the_cap_is_not_lowered() -> None:
    async with in_process(model(), stop_message__max_repeats=2) as gate:
        await gate.ask(talk('<**stopMessage:"x",2**>'), SESSION)
        await gate.ask(talk("x", assistant("y"), "<**stopMessage:x**>"), SESSION)
        assert len(follow_ups(gate.requests)) == 4
        assert not notes_of(gate, "stop_message_lowered")


async def test_switched_off_it_is_taken_out_and_reported() -> None:
    async with in_process(model(), stop_message__enabled=False) as gate:
        for _ in range(2):
            answer = await gate.ask(talk(f"{GO_ON}hi"), SESSION)
            assert text_of(answer).startswith("answer")
            assert told(answer) == (
                'ignored; reason="stopMessage: switched off (stop_message.enabled)"'
            )
        assert [newest(request) for request in gate.requests] == ["hi", "hi"]
        assert (await look(gate)).status == 404


async def test_switched_off_what_is_set_stays_and_does_nothing(tmp_path: Path) -> None:
    async with in_process(model(("cut", "length")), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), SESSION)
    async with in_process(model(), stop_message__enabled=False, **kept(tmp_path)) as gate:
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "answer 1"
        assert (await stop_message(gate))["used"] == 0
        other = talk("x", assistant("y"), "<**stopMessage:clear**>")
        assert told(await gate.ask(other, SESSION)) == "set"
        assert (await look(gate)).json["stopMessage"] is None


async def test_a_text_over_the_limit_is_ignored() -> None:
    async with in_process(model(("cut", "length")), limits__stop_message_bytes=10) as gate:
        for text in ("x" * 11, "é" * 6):
            answer = await gate.ask(talk(f'<**stopMessage:"{text}"**>hi'), SESSION)
            assert "longer than 10 bytes" in told(answer)
            assert newest(gate.requests[-1]) == "hi"
        assert (await look(gate)).status == 404
        assert told(await gate.ask(talk(f'<**stopMessage:"{"é" * 5}"**>'), SESSION)) == "set"


async def test_an_older_one_stays_when_the_new_one_is_ignored() -> None:
    async with in_process(model(("cut", "length"))) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        for bad in (f'<**stopMessage:"{"x" * 5000}",2**>', '<**stopMessage:" "**>'):
            answer = await gate.ask(talk("x", assistant("y"), bad), SESSION)
            assert told(answer).startswith("ignored")
        assert (await stop_message(gate))["text"] == "go on"
        assert not notes_of(gate, "stop_message_lowered")


async def test_a_directive_over_eight_kilobytes_is_ignored() -> None:
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(f'<**stopMessage:"{"x" * 9000}"**>hi'), SESSION)
        assert "longer than 8192 bytes" in told(answer)
        assert newest(gate.requests[-1]) == "hi"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A directory of texts, beside things that are not to be read."""
    place = tmp_path / "texts"
    place.joinpath("deep").mkdir(parents=True)
    place.joinpath("go.md").write_text("Weiter so.\nGö on.")
    place.joinpath("deep", "go.md").write_text("deeper")
    place.joinpath("large.md").write_text("x" * 5000)
    place.joinpath("blank.md").write_text(" \n")
    place.joinpath("latin.md").write_bytes(b"\xff\xfe")
    place.joinpath("within").symlink_to("go.md")
    place.joinpath("round").symlink_to("round")
    os.mkfifo(place / "pipe")
    tmp_path.joinpath("secret.md").write_text("secret")
    place.joinpath("out.md").symlink_to(tmp_path / "secret.md")
    place.joinpath("away").symlink_to(tmp_path)
    return place


READABLE = {
    "go.md": "Weiter so.\nGö on.",
    "deep/go.md": "deeper",
    "./go.md": "Weiter so.\nGö on.",
    "within": "Weiter so.\nGö on.",
}


@pytest.mark.parametrize("name", READABLE)
async def test_a_text_from_a_file(texts: Path, name: str) -> None:
    async with in_process(model(), stop_message__files_dir=str(texts)) as gate:
        answer = await gate.ask(talk(f"<**stopMessage:<file://{name}>,2**>hi"), SESSION)
        assert told(answer) == "set"
        assert [newest(request) for request in gate.requests] == ["hi", *[READABLE[name]] * 2]
        assert (await stop_message(gate))["text"] == READABLE[name]


async def test_the_file_is_read_when_it_is_set(texts: Path) -> None:
    said = "<**stopMessage:<file://go.md>,2**>hi"
    story = model("one", ("two", "length"), "three")
    async with in_process(story, stop_message__files_dir=str(texts)) as gate:
        await gate.ask(talk(said), SESSION)
        texts.joinpath("go.md").write_text("changed")
        assert told(await gate.ask(talk(said), SESSION)) == "unchanged"
        assert newest(gate.requests[-1]) == "Weiter so.\nGö on."


OUTSIDE = "the file is not inside stop_message.files_dir"
UNREADABLE = "the file cannot be read"
NO_FILE = "it is not a file, or is larger than 4096 bytes"
REFUSED = {
    "../secret.md": OUTSIDE,
    "deep/../../secret.md": OUTSIDE,
    "deep/../go.md": OUTSIDE,
    "/etc/passwd": OUTSIDE,
    "out.md": OUTSIDE,
    "away/secret.md": OUTSIDE,
    "missing.md": UNREADABLE,
    "deep": NO_FILE,
    "pipe": NO_FILE,
    "round": UNREADABLE,
    "latin.md": UNREADABLE,
    "nul\0.md": UNREADABLE,
    "x" * 300: UNREADABLE,
    "large.md": NO_FILE,
    "blank.md": "the text is empty",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_text_of_the_operators_is_ignored(texts: Path, name: str) -> None:
    async with in_process(model(), stop_message__files_dir=str(texts)) as gate:
        answer = await gate.ask(talk(f"<**stopMessage:<file://{name}>,2**>hi"), SESSION)
        assert told(answer).startswith('ignored; reason="stopMessage: ')
        assert REFUSED[name] in told(answer)
        assert [newest(request) for request in gate.requests] == ["hi"]


async def test_an_absolute_name_is_ignored_even_of_a_text_inside(texts: Path) -> None:
    async with in_process(model(), stop_message__files_dir=str(texts)) as gate:
        answer = await gate.ask(talk(f"<**stopMessage:<file://{texts}/go.md>**>hi"), SESSION)
        assert OUTSIDE in told(answer)


async def test_without_a_directory_files_are_off() -> None:
    async with in_process(model()) as gate:
        for _ in range(2):
            answer = await gate.ask(talk("<**stopMessage:<file://go.md>**>hi"), SESSION)
            assert "switched off (stop_message.files_dir)" in told(answer)
        assert (await look(gate)).status == 404
