"""Disks that are full, read-only or gone: a reason is given, nothing is torn, and it heals."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from gateway.stores import Documents, StoreUnavailable, fetch, update

from .conftest import Backend
from .mounts import read_only, small_disk
from .shapes import CLOCK, Notes, clock, plus_one

LONG = "x" * 10_000


def names_below(place: Path) -> list[str]:
    return sorted(path.name for path in place.rglob("*") if path.is_file())


async def refused(store: Documents, text: str, reason: str) -> None:
    """See that a change is refused with a reason, and that the old content stays whole."""
    before = await fetch(store, clock("a"), CLOCK)
    with pytest.raises(StoreUnavailable, match=reason):
        await update(store, clock("a"), partial(replace, text=text), CLOCK)
    assert await fetch(store, clock("a"), CLOCK) == before


@pytest.mark.parametrize(("name", "kilobytes"), [("files", 64), ("sqlite", 512)])
async def test_a_full_disk(tmp_path: Path, name: str, kilobytes: int) -> None:
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        backend = Backend(name, disk.place)
        async with backend.opened() as store:
            await update(store, clock("a"), plus_one, CLOCK)
            disk.fill()
            names = names_below(disk.place)
            for _ in range(3):
                await refused(store, LONG, "the disk is full")
            assert names_below(disk.place) == names
            disk.free()
            assert (await update(store, clock("a"), plus_one, CLOCK)).count == 2
        async with backend.opened() as store:
            assert await fetch(store, clock("a"), CLOCK) == Notes(2)


async def test_a_full_disk_hurts_only_who_writes(tmp_path: Path) -> None:
    """Many at once: each hears of it, each keeps what it had, and what could be kept is kept."""
    sessions = [f"s{number}" for number in range(40)]
    with small_disk(tmp_path / "disk", 64) as disk:
        files = Backend("files", disk.place)
        kept: list[str] = []
        refusals: list[str] = []
        async with files.opened() as store:

            async def keep(session: str) -> None:
                try:
                    await update(store, clock(session), plus_one, CLOCK)
                    kept.append(session)
                except StoreUnavailable as error:
                    refusals.append(error.message)

            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(keep, session)
            assert 0 < len(kept) < len(sessions)
            assert set(refusals) == {"The session's state is unavailable: the disk is full."}
            for session in sessions:
                assert (await fetch(store, clock(session), CLOCK)).count == (session in kept)
        assert len(list(files.root.joinpath("clock").iterdir())) == len(kept)


async def test_a_read_only_disk(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        with read_only(files.root / "clock"):
            await refused(store, "b", "the disk is read-only")
            with pytest.raises(StoreUnavailable, match="the disk is read-only"):
                await store.delete(clock("a"))
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 2


async def test_a_corrupt_file_on_a_read_only_disk(files: Backend) -> None:
    async with files.opened() as store:
        files.root.joinpath("clock/a.json").write_bytes(b"bad")
        with read_only(files.root / "clock"):
            with pytest.raises(StoreUnavailable, match="the disk is read-only"):
                await fetch(store, clock("a"), CLOCK)
        assert await fetch(store, clock("a"), CLOCK) == Notes()


async def test_a_directory_that_goes_and_comes_back(files: Backend, tmp_path: Path) -> None:
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        away = files.root.rename(tmp_path / "away")
        assert await fetch(store, clock("a"), CLOCK) == Notes()
        with pytest.raises(StoreUnavailable, match="its directory is gone"):
            await update(store, clock("b"), plus_one, CLOCK)
        assert not files.root.exists()
        away.rename(files.root)
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 2


async def test_a_directory_that_was_removed_and_made_again(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        shutil.rmtree(files.root)
        files.root.mkdir()
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1


async def test_all_documents_of_a_kind_removed_at_once(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        shutil.rmtree(files.root / "clock")
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1
    assert files.root.joinpath("clock").stat().st_mode & 0o777 == 0o700


async def test_a_file_in_the_place_of_the_directory(files: Backend) -> None:
    async with files.opened() as store:
        files.root.joinpath("clock").rmdir()
        files.root.joinpath("clock").write_text("")
        with pytest.raises(StoreUnavailable, match="its directory is gone"):
            await fetch(store, clock("a"), CLOCK)
        files.root.joinpath("clock").unlink()
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1


async def test_a_database_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """And nothing is acknowledged into a file that nobody can find."""
    sqlite = Backend("sqlite", tmp_path)
    async with sqlite.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        for path in tmp_path.glob("kept.sqlite3*"):
            path.unlink()
        assert await fetch(store, clock("a"), CLOCK) == Notes()
        await update(store, clock("b"), plus_one, CLOCK)
    async with sqlite.opened() as store:
        assert (await fetch(store, clock("b"), CLOCK)).count == 1


async def test_a_database_whose_directory_goes_and_comes_back(tmp_path: Path) -> None:
    sqlite = Backend("sqlite", tmp_path / "place")
    async with sqlite.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        away = tmp_path.joinpath("place").rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="its directory is gone"):
                await fetch(store, clock("a"), CLOCK)
            with pytest.raises(StoreUnavailable, match="its directory is gone"):
                await store.delete(clock("a"))
        away.rename(tmp_path / "place")
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 2


async def test_a_database_somebody_broke(tmp_path: Path) -> None:
    sqlite = Backend("sqlite", tmp_path)
    async with sqlite.opened() as store:
        other = sqlite3.connect(tmp_path / "kept.sqlite3")
        other.execute("ALTER TABLE documents RENAME TO elsewhere")
        for call in (store.read(clock("a")), store.delete(clock("a"))):
            with pytest.raises(StoreUnavailable, match="the database reports an error"):
                await call
        other.execute("ALTER TABLE elsewhere RENAME TO documents")
        other.close()
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1
