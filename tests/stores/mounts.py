"""A small disk of one's own, to fill; a directory to make read-only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip()
        pytest.fail(f"This test mounts a file system, which needs root: {said}", pytrace=False)


class SmallDisk:
    """A file system in memory at a place of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fill(self) -> None:
        """Leave not a single block free."""
        with self.place.joinpath("filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                return

    def free(self) -> None:
        """Take back what fills it."""
        self.place.joinpath("filler").unlink()


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[SmallDisk]:
    """Mount a disk of some kilobytes, and take it away in the end."""
    place.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "holdgate-test", place)
    try:
        yield SmallDisk(place)
    finally:
        _run("umount", "-l", place)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Make a directory read-only, even for root, and writable again in the end."""
    _run("mount", "--bind", place, place)
    try:
        _run("mount", "-o", "remount,bind,ro", place)
        yield
    finally:
        _run("umount", "-l", place)
