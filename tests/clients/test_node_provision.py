"""The Node clients are installed once, and a machine that cannot is told what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .node import DIRECTORY, LOCK_FILE, NotReady, provide

Machine = Callable[..., Path]

GOOD_NPM = 'mkdir -p node_modules && echo "$@" >> runs'
BAD_NPM = "echo no way to the registry >&2; exit 7"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make a machine that has these programs and no others, with something to install."""

    def make(**programs: str) -> Path:
        place, bin_ = tmp_path / "clients", tmp_path / "bin"
        place.mkdir()
        bin_.mkdir()
        for name, script in programs.items():
            (bin_ / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
            (bin_ / name).chmod(0o755)
        (place / LOCK_FILE).write_text("{}")
        monkeypatch.setenv("PATH", str(bin_))
        return place

    return make


def runs(place: Path) -> list[str]:
    return (place / "runs").read_text().splitlines()


@pytest.mark.parametrize(
    "programs, sentence",
    [
        ({}, "node is missing, and the client tests need it: install Node.js"),
        ({"node": "echo v22.1.0"}, "npm is missing, and the client tests need it: install npm"),
        ({"node": "echo v16.20.2", "npm": GOOD_NPM}, "node is v16.20.2, too old"),
        ({"node": "echo v22.1.0", "npm": BAD_NPM}, r"failed with status 7\. .*\nno way to the"),
    ],
)
def test_what_is_missing_is_said(programs: dict[str, str], sentence: str, machine: Machine) -> None:
    with pytest.raises(NotReady, match=sentence):
        provide(machine(**programs))


def test_it_installs_once_and_again_for_another_lock_file(machine: Machine) -> None:
    place = machine(node="echo v22.1.0", npm=GOOD_NPM)
    provide(place)
    provide(place)
    assert runs(place) == ["ci --ignore-scripts --no-audit --no-fund"]
    (place / LOCK_FILE).write_text('{"packages": {}}')
    provide(place)
    assert len(runs(place)) == 2


def test_an_install_that_failed_is_tried_again(machine: Machine) -> None:
    place = machine(node="echo v22.1.0", npm=f"{GOOD_NPM}; test -e ready")
    with pytest.raises(NotReady):
        provide(place)
    (place / "ready").touch()
    provide(place)
    assert len(runs(place)) == 2


def test_side_by_side_only_one_installs(machine: Machine) -> None:
    place = machine(node="echo v22.1.0", npm=GOOD_NPM)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(provide, [place] * 4))
    assert len(runs(place)) == 1


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (DIRECTORY / LOCK_FILE).read_text()
