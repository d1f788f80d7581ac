"""Node and the packages of the Node clients: installed once, and only from the lock file."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import msgspec

DIRECTORY = Path(__file__).parent
LOCK_FILE = "package-lock.json"
STAMP = Path("node_modules", ".installed")
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund")
LIMIT = 300.0
SCRIPT_LIMIT = 30.0
OLDEST = 20


class NotReady(Exception):
    """A client cannot run here; the text says what is missing and how to get it."""


def program(name: str, package: str) -> str:
    """Find a program, or say how to get it."""
    found = shutil.which(name)
    if found is None:
        raise NotReady(f"{name} is missing, and the client tests need it: install {package}.")
    return found


def provide(directory: Path = DIRECTORY) -> None:
    """Install what the lock file names, unless that is what is installed."""
    node = program("node", f"Node.js {OLDEST} or newer (nodejs.org, or your system's packages)")
    npm = program("npm", "npm (it comes with Node.js; Debian has it as the package npm)")
    _check_age(node)
    lock_file, stamp = directory / LOCK_FILE, directory / STAMP
    with lock_file.open("rb") as lock:
        # Test processes that run side by side wait here for the first one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256(lock.read()).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            _install(npm, directory)
            stamp.write_text(wanted)


def locked_version(package: str) -> str:
    """Return the version that the lock file names."""
    packages = json.loads((DIRECTORY / LOCK_FILE).read_text())["packages"]
    version: str = packages[f"node_modules/{package}"]["version"]
    return version


def told(script: str, asked: object) -> bytes:
    """Run a script that reads on stdin what is asked, and return what it prints."""
    done = subprocess.run(
        ("node", script),
        input=msgspec.json.encode(asked),
        capture_output=True,
        cwd=DIRECTORY,
        timeout=SCRIPT_LIMIT,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def _check_age(node: str) -> None:
    told = subprocess.run((node, "--version"), capture_output=True, text=True, check=True).stdout
    if int(told.removeprefix("v").partition(".")[0]) < OLDEST:
        raise NotReady(
            f"node is {told.strip()}, too old for the client tests: get {OLDEST} or newer."
        )


def _install(npm: str, directory: Path) -> None:
    try:
        done = subprocess.run(
            (npm, *INSTALL), cwd=directory, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        raise NotReady(_sentence(directory, f"did not end within {LIMIT:.0f} s")) from None
    if done.returncode != 0:
        why = f"failed with status {done.returncode}"
        raise NotReady(f"{_sentence(directory, why)}\n{done.stderr.strip()}")


def _sentence(directory: Path, why: str) -> str:
    return (
        f"npm {' '.join(INSTALL)} {why}. The Node clients come from the npm registry: check that "
        f"npm can reach one (npm ping), then run it in {directory}."
    )
