"""Two gateways on one database: the second is refused, whatever the version of SQLite."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clock.reminding import variables
from tests.gateway.wire import hanging
from tests.run import ROOT, SERVE, environment
from tests.sessions.process import process
from tests.wire.fake import fake_upstream

# Read by every Python process that finds it on its path.
NEWER_LIBRARY = "import sqlite3\nsqlite3.sqlite_version_info = (3, 99, 0)\n"


def newer_library(home: Path) -> str:
    """Make a place that has a process believe that its SQLite is of a later version."""
    home.joinpath("later").mkdir()
    home.joinpath("later", "sitecustomize.py").write_text(NEWER_LIBRARY)
    return f"{home / 'later'}:{ROOT}"


def refused(home: Path, settings: Mapping[str, str]) -> str:
    """Start a second gateway, which does not come up; return what it says."""
    other = {"HOLDGATE_SERVER__SESSION_DIR": str(home / "other")}
    done = subprocess.run(
        [sys.executable, "-m", *SERVE],
        cwd=home,
        env=environment(home, {**other, **settings}),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


NAMES = {
    "the same path": "{home}/kept.db",
    "a link to it": "{home}/link.db",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_newer_sqlite_library_lets_no_second_gateway_in(tmp_path: Path, name: str) -> None:
    path = newer_library(tmp_path)
    tmp_path.joinpath("link.db").symlink_to(tmp_path / "kept.db")
    async with fake_upstream(hanging()) as fake:
        settings = {**variables(fake.port), "PYTHONPATH": path}
        first = {**settings, "HOLDGATE_STORE__URL": f"sqlite:///{tmp_path}/kept.db"}
        second = {**settings, "HOLDGATE_STORE__URL": f"sqlite:///{name.format(home=tmp_path)}"}
        async with process(tmp_path, first) as gate:
            said = refused(tmp_path, second)
            assert "kept.db" in said
            assert f"is used by another Holdgate (process {gate.pid})" in said


async def test_the_rows_of_a_session_directory_are_no_database_of_a_second_gateway(
    tmp_path: Path,
) -> None:
    async with fake_upstream(hanging()) as fake:
        settings = variables(fake.port)
        rows = tmp_path / "sessions" / "holdgate.sqlite3"
        async with process(tmp_path, settings) as gate:
            said = refused(tmp_path, {**settings, "HOLDGATE_STORE__URL": f"sqlite:///{rows}"})
            assert f"is used by another Holdgate (process {gate.pid})" in said
