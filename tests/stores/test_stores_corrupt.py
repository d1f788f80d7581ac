"""Corrupt files: each is set aside alone, and nobody else notices."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gateway.stores import fetch, update
from gateway.stores.documents import LARGEST_DOCUMENT

from .conftest import Backend
from .shapes import CLOCK, Notes, clock, plus_one

FINE = '{{"version":1,"owner":"local","sessionId":"{0}","count":1,"text":"","dueMs":{1},"updatedAtMs":1}}'


def fine(session: str) -> bytes:
    return FINE.format(session, 5).encode()


def as_directory(path: Path) -> None:
    path.mkdir()
    path.joinpath("inside").write_text("x")


def enormous(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGEST_DOCUMENT + 1)


KINDS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(fine(path.stem)[:-20]),
    "garbage": lambda path: path.write_bytes(os.urandom(200)),
    "zeros": lambda path: path.write_bytes(bytes(200)),
    "deep": lambda path: path.write_bytes(b'{"a":' * 100_000),
    "enormous": enormous,
    "list": lambda path: path.write_bytes(b"[1,2,3]"),
    "unversioned": lambda path: path.write_bytes(fine(path.stem).replace(b'"version":1,', b"")),
    "foreign": lambda path: path.write_bytes(fine(path.stem).replace(b"local", b"ann")),
    "misplaced": lambda path: path.write_bytes(fine("another")),
    "nonsense": lambda path: path.write_bytes(fine(path.stem).replace(b'"count":1', b'"count":{}')),
    "directory": as_directory,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "pipe": os.mkfifo,
}


@pytest.fixture
def folder(files: Backend) -> Path:
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    return folder


async def test_five_hundred_corrupt_files_among_good_ones(files: Backend, folder: Path) -> None:
    bad = [f"{kind}-{number}" for kind in KINDS for number in range(36)]
    for name in bad:
        KINDS[name.partition("-")[0]](folder / f"{name}.json")
    good = [f"good-{number}" for number in range(50)]
    for name in good:
        folder.joinpath(f"{name}.json").write_bytes(fine(name))
    assert len(bad) > 500

    async with files.opened() as store:
        # Some are asked for before the scan has come to them.
        for name in bad[::50]:
            assert await fetch(store, clock(name), CLOCK) == Notes()
        due = await store.due("clock", 6, 1000)
        assert sorted(key.session for key in due) == sorted(good)
        for name in good:
            assert (await fetch(store, clock(name), CLOCK)).count == 1
        for name in bad:
            assert await fetch(store, clock(name), CLOCK) == Notes()
        assert (await update(store, clock(bad[0]), plus_one, CLOCK)).count == 1

    aside = sorted(path.name for path in folder.iterdir() if ".corrupt-" in path.name)
    assert sorted(name.partition(".corrupt-")[0] for name in aside) == sorted(bad)
    assert sorted(f"clock/{name}" for name in aside) == sorted(
        name for name, _ in files.quarantined
    )
    assert sum(path.suffix == ".json" for path in folder.iterdir()) == len(good) + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_that_breaks_while_the_store_is_open(files: Backend, kind: str) -> None:
    path = files.root / "clock" / "a.json"
    async with files.opened() as store:
        for _ in range(2):
            await update(store, clock("a"), plus_one, CLOCK)
            path.unlink()
            KINDS[kind](path)
            assert await fetch(store, clock("a"), CLOCK) == Notes()
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1
    assert len(files.quarantined) == 2
    assert len(list(path.parent.iterdir())) == 3


async def test_what_is_set_aside_in_the_same_millisecond_has_two_names(
    files: Backend, folder: Path
) -> None:
    async with files.opened() as store:
        store.now_ms = lambda: 1_770_000_000_123
        for _ in range(3):
            folder.joinpath("a.json").write_bytes(b"bad")
            assert await fetch(store, clock("a"), CLOCK) == Notes()
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.corrupt-20260202T024000.123000Z",
        "a.corrupt-20260202T024000.123000Z-2",
        "a.corrupt-20260202T024000.123000Z-3",
    ]


async def test_many_who_find_it_set_it_aside_once(files: Backend, folder: Path) -> None:
    async with files.opened() as store:
        await store.due("clock", 0, 1)
        folder.joinpath("a.json").write_bytes(b"bad")
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(fetch, store, clock("a"), CLOCK)
    assert len(files.quarantined) == 1


async def test_a_newer_file_survives_the_scan(files: Backend, folder: Path) -> None:
    newer = fine("a").replace(b'"version":1', b'"version":9')
    folder.joinpath("a.json").write_bytes(newer)
    async with files.opened() as store:
        assert await store.due("clock", 10**9, 10) == []
    assert folder.joinpath("a.json").read_bytes() == newer
    assert files.quarantined == []
