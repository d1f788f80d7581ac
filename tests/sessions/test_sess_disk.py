"""Disks that are full or read-only, and requests that must not write at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.stores import Documents
from tests.gateway.wire import get
from tests.run import in_process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    assistant,
    document,
    forget,
    kept,
    look,
    model,
    notes_of,
    stop_message,
    talk,
    text_of,
    told,
)
from tests.stores.mounts import read_only, small_disk

Trouble = Callable[[], AbstractContextManager[None]]
OLD = '<**stopMessage:"old",1**><**#b**>'


@contextmanager
def full(tmp_path: Path) -> Iterator[tuple[Path, Trouble]]:
    with small_disk(tmp_path / "disk", 64) as disk:

        @contextmanager
        def trouble() -> Iterator[None]:
            disk.fill()
            yield
            disk.free()

        yield disk.place / "kept", trouble


@contextmanager
def protected(tmp_path: Path) -> Iterator[tuple[Path, Trouble]]:
    place = tmp_path / "kept"
    yield place, lambda: read_only(place / "session")


TROUBLES = {"the disk is full": full, "the disk is read-only": protected}


@pytest.mark.parametrize("reason", TROUBLES)
async def test_the_chat_is_served_and_the_directive_reported(tmp_path: Path, reason: str) -> None:
    with TROUBLES[reason](tmp_path) as (place, trouble):
        async with in_process(model(("cut", "length"), "two"), model("b"), **kept(place)) as gate:
            await gate.ask(talk(OLD), SESSION)
            before = document(place)
            with trouble():
                for text in (GO_ON, "<**!b**>", "<**clear**>"):
                    answer = await gate.ask(talk("hi", assistant("x"), text), SESSION)
                    assert text_of(answer) == "two"
                    assert told(answer) == (
                        f'ignored; reason="not stored: The session\'s state is unavailable: {reason}."'
                    )
                assert document(place) == before
                assert (await look(gate)).json["directives"] == ["<**#b**>"]
            answer = await gate.ask(talk("hi", assistant("x"), GO_ON), SESSION)
            assert told(answer) == "set"
            assert (await stop_message(gate))["text"] == "go on"


@pytest.mark.parametrize("reason", TROUBLES)
async def test_what_cannot_be_counted_is_not_sent(tmp_path: Path, reason: str) -> None:
    with TROUBLES[reason](tmp_path) as (place, trouble):
        async with in_process(model(("cut", "length"), "a", "b", "c"), **kept(place)) as gate:
            await gate.ask(talk(OLD), SESSION)
            with trouble():
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "a"
                assert (await stop_message(gate))["used"] == 0
                (note,) = notes_of(gate, "session_not_stored")
                assert reason in note["why"]
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "b\n\nc"
            assert document(place)["stopMessageUsed"] == 1


@pytest.mark.parametrize("reason", TROUBLES)
async def test_a_forced_route_needs_no_disk(tmp_path: Path, reason: str) -> None:
    with TROUBLES[reason](tmp_path) as (place, trouble):
        async with in_process(model("a"), model("b"), **kept(place)) as gate:
            await gate.ask(talk("hi <**#a**>"), SESSION)
            with trouble():
                answer = await gate.ask(talk("hi", assistant("x"), "<**a.m**>"), SESSION)
                assert (text_of(answer), told(answer)) == ("a", "set")
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "b"


async def test_a_directive_that_was_not_stored_acts_when_it_is_sent_again(tmp_path: Path) -> None:
    with full(tmp_path) as (place, trouble):
        async with in_process(model("a"), model("b"), **kept(place)) as gate:
            with trouble():
                answer = await gate.ask(talk("<**#a**>"), SESSION)
                assert (text_of(answer), told(answer)[:7]) == ("a", "ignored")
            answer = await gate.ask(talk("<**#a**>"), SESSION)
            assert (text_of(answer), told(answer)) == ("b", "set")


async def test_nothing_is_forgotten_that_cannot_be_removed(tmp_path: Path) -> None:
    with protected(tmp_path) as (place, trouble):
        async with in_process(model("a"), model("b"), **kept(place)) as gate:
            await gate.ask(talk("<**#a**>"), SESSION)
            with trouble():
                refused = await forget(gate)
                assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
                assert text_of(await gate.ask(talk("hi"), SESSION)) == "b"
            assert (await forget(gate)).status == 200


async def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    async with in_process(model("a"), model("b"), **kept(place)) as gate:
        await gate.ask(talk("<**#a**>"), SESSION)
        place.rename(tmp_path / "away")
        answer = await gate.ask(talk("hi", assistant("x"), GO_ON), SESSION)
        assert "its directory is gone" in told(answer)
        tmp_path.joinpath("away").rename(place)
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "b"


class Counting:
    """A store that counts what is asked of it."""

    def __init__(self, store: Documents) -> None:
        self._store = store
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *arguments: Any) -> int:
        self.writes += 1
        return await self._store.write(*arguments)

    async def delete(self, *arguments: Any) -> None:
        self.writes += 1
        await self._store.delete(*arguments)


def snapshot(place: Path) -> dict[str, tuple[int, int, int]]:
    """Note all there is below a place, and when it was last changed."""
    found = [place, *(Path(root, n) for root, d, f in os.walk(place) for n in (*d, *f))]
    states = {str(path): path.stat() for path in found}
    return {name: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for name, s in states.items()}


async def test_a_session_without_state_costs_no_write(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    bodies = [
        talk("hi"),
        talk("hi", assistant("x"), "more", tools=tools),
        talk("`<**clear**>` is text, and so is <**this**>"),
        talk("<**a.m**> a route for this request"),
        talk("<**!nobody**> cannot be read"),
        talk("an old <**#b**>", assistant("x"), "hi", stream=False),
    ]
    async with in_process(model("a"), model("b"), **kept(tmp_path)) as gate:
        store = gate.gateway.parts.states.store
        gate.gateway.parts.states.store = counting = Counting(store)
        await gate.fetch(get("/api/sessions"))
        before = snapshot(tmp_path)

        async def ask(number: int) -> None:
            body = bodies[number % len(bodies)]
            assert (await gate.ask(body, f"x-session-id: s{number}")).status == 200

        async with anyio.create_task_group() as tasks:
            for number in range(10 * len(bodies)):
                tasks.start_soon(ask, number)
        assert counting.writes == 0
        assert snapshot(tmp_path) == before
        await gate.ask(talk("hi", assistant("x"), "<**#b**>"), SESSION)
        assert counting.writes == 1
        assert snapshot(tmp_path) != before


async def test_a_tool_loop_writes_once(tmp_path: Path) -> None:
    """Seeing the same directive again and again is not worth a write each time."""
    async with in_process(model(("cut", "length")), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        before = snapshot(tmp_path)
        for number in range(10):
            loop = talk(GO_ON, *[assistant("x")] * (number + 1))
            assert told(await gate.ask(loop, SESSION)) == "unchanged"
        assert snapshot(tmp_path) == before


async def test_an_armed_stop_message_that_is_not_used_costs_no_write(tmp_path: Path) -> None:
    async with in_process(model(("cut", "length")), **kept(tmp_path)) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        before = snapshot(tmp_path)
        for _ in range(5):
            await gate.ask(talk("hi"), SESSION)
        assert snapshot(tmp_path) == before
