"""`holdgate copy`: what it says, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres.server import make_schema_name, shared_server
from tests.run import as_process, environment
from tests.stores.copies import fill

NO_NTP = {"ROUTECODEX_CLOCK_NTP": "off"}


def copy(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", "copy", *arguments],
        cwd=home,
        env=environment(home, NO_NTP),
        capture_output=True,
        text=True,
        timeout=60,
    )


async def test_a_copy_is_reported_and_only_goes_on_when_told_to(tmp_path: Path) -> None:
    await fill(tmp_path / "full", 4)
    words = ("--from", f"embedded://{tmp_path}/full", "--to", f"sqlite://{tmp_path}/all.db")
    done = copy(tmp_path, *words)
    assert done.returncode == 0
    # The tests' documents are none of the gateway's, but for one.
    assert len(done.stderr.splitlines()) == 4
    assert "was set aside: It is not a valid clock document." in done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["documents", "1", "same"] in lines
    assert ["jobs", "4", "same"] in lines
    assert {line[2] for line in lines[1:-1]} == {"same"}
    again = copy(tmp_path, *words)
    assert again.returncode == 1
    assert "is not empty" in again.stderr
    assert "--resume" in again.stderr
    assert copy(tmp_path, *words, "--resume").returncode == 0


async def test_the_configured_database_is_the_target(tmp_path: Path) -> None:
    await fill(tmp_path / "full", 4)
    url, schema = shared_server().url, make_schema_name()
    (tmp_path / "holdgate.toml").write_text(f'[store]\nurl = "{url}"\nschema = "{schema}"\n')
    done = copy(tmp_path, "--session-dir", f"{tmp_path}/full")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("both stores have the same rows.\n")
    back = copy(tmp_path, "--from", url, "--to", f"embedded://{tmp_path}/back")
    assert back.returncode == 0, back.stderr
    counted = [[line.split()[:2] for line in one.stdout.splitlines()[:-1]] for one in (done, back)]
    assert counted[0] == counted[1]


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    settings = {**NO_NTP, "HOLDGATE_SESSION_DIR": str(tmp_path / "used")}
    with as_process(tmp_path, settings) as gate:
        result = copy(
            tmp_path, "--session-dir", f"{tmp_path}/used", "--to", f"sqlite://{tmp_path}/x.db"
        )
        assert result.returncode == 1
        assert f"is used by another Holdgate (process {gate.pid})" in result.stderr


@pytest.mark.parametrize("url", ["nothing", "redis://here"])
def test_an_unknown_store_is_named(url: str, tmp_path: Path) -> None:
    result = copy(tmp_path, "--from", url)
    assert result.returncode == 1
    assert f'No store is known as "{url.partition(":")[0]}"' in result.stderr
