"""What the tests of shipping share: one release, one directory of packages, one environment.

They take seconds to make, so all processes of a test run share them: the first one that needs a
thing makes it, the others wait.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
# With the driver of PostgreSQL, as the container has it.
POSTGRES_LOCK = ROOT / "requirements-postgres.lock"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PATIENCE = 300


def run(*command: str | Path, **environ: str) -> str:
    """Run a program that has to succeed; return what it prints."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def make_environment(place: Path) -> Path:
    """Make a virtual environment with nothing in it; return its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", place)
    return place / "bin/python"


def share(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]
) -> Path:
    """Return a directory that one process of this test run makes and all use."""
    base = tmp_path_factory.getbasetemp()
    # With several processes each has a directory of its own below the common one.
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place = common / f"shared-{name}"
    with common.joinpath(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = common / f"{place.name}.done"
        if not done.exists():
            place.mkdir()
            make(place)
            done.touch()
    return place


def use_packages(wheelhouse: Path) -> dict[str, str]:
    """Return settings that make pip take packages from a directory, and ask nobody else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheelhouse), "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Path) -> Path:
    """What scripts/release builds, and what it said, in `said`."""

    def make(place: Path) -> None:
        environ = {"HOLDGATE_VENV": sys.prefix, **use_packages(wheelhouse)}
        said = run(ROOT / "scripts/release", "--dirty", place / "dist", **environ)
        place.joinpath("said").write_text(said)

    return share(tmp_path_factory, "release", make)


@pytest.fixture(scope="session")
def wheel(release: Path) -> Path:
    """The wheel."""
    (found,) = release.glob("dist/*.whl")
    return found


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked packages as files, and what builds ours."""

    def make(place: Path) -> None:
        download = (*PIP, "download", "--quiet", "--only-binary", ":all:", "--dest", place)
        run(*download, "--require-hashes", "--requirement", POSTGRES_LOCK)
        run(*download, "build", "setuptools>=77")

    return share(tmp_path_factory, "wheelhouse", make)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path, wheelhouse: Path) -> Path:
    """An environment that holds the wheel and the locked packages, and nothing else."""

    def make(place: Path) -> None:
        python = make_environment(place / "venv")
        install = (*PIP, "--python", python, "install", "--quiet")
        packages = use_packages(wheelhouse)
        run(*install, "--require-hashes", "--requirement", LOCK, **packages)
        run(*install, "--no-deps", wheel, **packages)

    return share(tmp_path_factory, "installed", make) / "venv"
