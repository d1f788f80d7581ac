"""scripts/test: what it brings, on which Pythons it runs, and when it fails.

Each story has a PATH of its own: a directory of real tools and of programs that only say something.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = (
    *("bash", "sh", "env", "dirname", "cat", "sort", "awk", "grep", "mktemp", "rm", "id"),
    *("sha256sum", "cut", "mkdir", "sleep", "nohup"),
)
PROGRAMS = (
    *(
        "node",
        "npm",
        "nginx",
        "curl",
        "strace",
        "openssl",
        "jq",
        "sqlite3",
        "zsh",
        "fish",
        "chromium",
    ),
    *("systemd-analyze", "git", "initdb", "pgbouncer", "haproxy", "faketime"),
)
FAKE_PYTHON = 'if [ "$1" = -c ]; then echo "{version} $0"; fi'


def write_program(place: Path, name: str, code: str = "exit 0") -> Path:
    """Write a program of a few lines of shell."""
    place.mkdir(parents=True, exist_ok=True)
    file = place / name
    file.unlink(missing_ok=True)
    file.write_text(f"#!/bin/sh\n{code}\n")
    file.chmod(0o755)
    return file


class Machine:
    """A PATH, a home and a source tree in which scripts run."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "bin"
        self.home = place / "home"
        self.tree = place / "tree"
        self.said = place / "said"
        self.bin.mkdir()
        for name in TOOLS:
            found = shutil.which(name)
            assert found, name
            self.bin.joinpath(name).symlink_to(found)

    def run(
        self,
        script: Path,
        *under: str,
        arguments: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with nothing of this process in its environment."""
        return subprocess.run(
            (*under, str(script), *arguments),
            env={"PATH": str(self.bin), "HOME": str(self.home), **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# What tests run.

BRING = ROOT / "scripts/testing/bring_programs"
FONT = "chinese.ttc"


def have_programs(machine: Machine, *but: str) -> None:
    for name in set(PROGRAMS) - set(but):
        write_program(machine.bin, name)
    write_program(machine.bin, "fc-list", "" if FONT in but else f"echo {FONT}")


def be_user(machine: Machine, number: int) -> None:
    write_program(machine.bin, "id", f"echo {number}")


def test_nothing_is_said_where_all_is_there(machine: Machine) -> None:
    have_programs(machine)
    result = machine.run(BRING)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(("user", "apt"), [(1000, True), (1000, False), (0, False)])
def test_what_is_missing_is_listed_with_the_command_to_get_it(
    machine: Machine, user: int, apt: bool
) -> None:
    have_programs(machine, "node", "jq", "systemd-analyze")
    be_user(machine, user)
    if apt:
        write_program(machine.bin, "apt-get", f"echo apt-get >>{machine.said}")
    result = machine.run(BRING)
    assert result.returncode == 1
    assert "missing: node jq systemd-analyze\n" in result.stderr
    assert "sudo apt-get install nodejs jq systemd\n" in result.stderr
    assert not machine.said.exists()


def test_root_on_debian_installs_it_and_says_so(machine: Machine) -> None:
    have_programs(machine, "zsh", "jq")
    be_user(machine, 0)
    write_program(machine.bin, "apt-get", f'echo "$*" >>{machine.said}')
    result = machine.run(BRING)
    assert result.returncode == 0
    assert "The tests need jq zsh; installing the packages jq zsh …" in result.stderr
    assert machine.said.read_text() == "update -qq\ninstall -y -qq jq zsh\n"


def test_a_chinese_font_is_brought_where_there_is_none(machine: Machine) -> None:
    have_programs(machine, FONT)
    be_user(machine, 0)
    write_program(machine.bin, "apt-get", f'echo "$*" >>{machine.said}')
    assert machine.run(BRING).returncode == 0
    assert machine.said.read_text() == "update -qq\ninstall -y -qq fonts-wqy-microhei\n"


def test_the_font_of_the_pictures_is_brought_when_it_is_asked_for(machine: Machine) -> None:
    have_programs(machine)
    write_program(machine.bin, "fc-list", f'[ "$1" = Inter ] || echo {FONT}')
    be_user(machine, 1000)
    assert machine.run(BRING).returncode == 0
    result = machine.run(BRING, arguments=("Inter",))
    assert result.returncode == 1
    assert "sudo apt-get install fonts-inter\n" in result.stderr


def test_an_installation_that_fails_is_a_failure(machine: Machine) -> None:
    have_programs(machine, "jq")
    be_user(machine, 0)
    write_program(machine.bin, "apt-get", "echo no such mirror >&2; exit 100")
    result = machine.run(BRING)
    assert result.returncode == 100
    assert "no such mirror" in result.stderr


# Pythons.

FIND = ROOT / "scripts/testing/find_pythons"


def test_every_supported_python_is_found_once(machine: Machine) -> None:
    elsewhere = machine.home / ".pyenv/versions/3.12.1/bin"
    by_uv = machine.home / ".local/share/uv/python/cpython-3.14/bin"
    for place, name, version in [
        (machine.bin, "python3.13", "3.13"),
        (elsewhere, "python3.12", "3.12"),
        (elsewhere, "python3.12-config", "3.99"),
        (by_uv, "python3.14", "3.14"),
        (by_uv, "python3.13", "3.13"),
    ]:
        write_program(place, name, FAKE_PYTHON.format(version=version))
    # As those of pyenv, for a version that is installed and not chosen.
    write_program(machine.bin, "python3.12", "echo not chosen >&2; exit 127")
    assert machine.run(FIND).stdout.splitlines() == [
        f"3.12 {elsewhere}/python3.12",
        f"3.13 {machine.bin}/python3.13",
        f"3.14 {by_uv}/python3.14",
    ]


def test_of_real_ones_only_supported_releases_are_printed(machine: Machine) -> None:
    found = machine.run(FIND, environ=dict(os.environ)).stdout.splitlines()
    versions = [tuple(map(int, line.split()[0].split("."))) for line in found]
    assert versions
    assert versions == sorted(set(versions))
    assert versions[0] >= (3, 11)
    assert all(os.access(line.split(maxsplit=1)[1], os.X_OK) for line in found)


def test_other_pythons_can_be_named_or_none(machine: Machine) -> None:
    write_program(machine.bin, "python3.13", FAKE_PYTHON.format(version="3.13"))
    other = write_program(machine.home, "snake", FAKE_PYTHON.format(version="3.12"))
    assert machine.run(FIND, environ={"HOLDGATE_PYTHONS": str(other)}).stdout == f"3.12 {other}\n"
    assert machine.run(FIND, environ={"HOLDGATE_PYTHONS": ""}).stdout == ""


def test_versions_of_the_two_locks_of_tests_are_the_same() -> None:
    pins = [
        set(re.findall(r"^[\w.-]+==\S+", ROOT.joinpath(name).read_text(), re.MULTILINE))
        for name in ("requirements-pure.lock", "requirements-dev.lock")
    ]
    assert pins[0] < pins[1]


def test_supported_pythons_are_those_that_the_metadata_names() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    names = re.findall(r"python(3\.\d+)", ROOT.joinpath("scripts/setup").read_text())
    assert sorted(set(names)) == classified


# The whole of it, in a tree where every step only says that it was taken.

SAY = 'echo "$0 $*" >>{said}'


def make_tree(
    machine: Machine, audit: int = 0, failing: str = "nothing", waiting: str = "nothing"
) -> Path:
    """Write a source tree around the real scripts/test, with a step that fails or never ends."""
    scripts, venv = machine.tree / "scripts", machine.tree / ".venv"
    scripts.mkdir(parents=True)
    say = SAY.format(said=machine.said)
    write_program(scripts, "setup", f"{say} $HOLDGATE_VENV")
    write_program(scripts, "audit", f"{say}\necho an audit with status {audit}; exit {audit}")
    shutil.copytree(ROOT / "scripts/testing", scripts / "testing")
    have_programs(machine)
    python = f"""
    if [ "$1" = -c ]; then echo 3.11; exit; fi
    echo "${{0##*/tree/}} $*" >>{machine.said}
    case "$0 $*" in
      *{failing}*) exit 5 ;;
      *{waiting}*)
        trap 'echo ended >>{machine.said}; exit' TERM
        echo waits >>{machine.said}
        while true; do sleep 0.01; done ;;
    esac
    """
    for name in ("python", "ruff", "mypy"):
        write_program(venv / "bin", name, python)
    write_program(venv / "pure-3.12/bin", "python", python)
    return Path(shutil.copy(ROOT / "scripts/test", scripts / "test"))


def list_steps(machine: Machine) -> list[str]:
    return machine.said.read_text().splitlines() if machine.said.exists() else []


def test_the_pure_parts_run_on_every_python_that_is_found(machine: Machine) -> None:
    script = make_tree(machine)
    for version in ("3.11", "3.12"):
        write_program(machine.bin, f"python{version}", FAKE_PYTHON.format(version=version))
    result = machine.run(script)
    assert result.returncode == 0, result.stderr
    assert "scripts/setup pure .venv/pure-3.12" in list_steps(machine)
    ran = [step for step in list_steps(machine) if " tests/pure " in step]
    assert [step.split()[0] for step in ran] == [".venv/bin/python", ".venv/pure-3.12/bin/python"]
    assert "The pure parts on Python 3.12:" in result.stdout
    assert "only one" not in result.stderr


def test_one_python_is_enough_and_said(machine: Machine) -> None:
    result = machine.run(make_tree(machine))
    assert result.returncode == 0, result.stderr
    assert "Python 3.11 is the only one found: the pure parts are tested on it alone." in (
        result.stderr
    )


@pytest.mark.parametrize(("status", "fails"), [(0, False), (1, True), (2, False), (3, False)])
def test_the_audit_fails_it_only_with_a_known_vulnerability(
    machine: Machine, status: int, fails: bool
) -> None:
    result = machine.run(make_tree(machine, audit=status))
    assert f"an audit with status {status}" in result.stdout
    assert result.returncode == (1 if fails else 0)


@pytest.mark.parametrize(
    "failing",
    [
        "ruff*check",
        "mypy",
        "coverage*run",
        "pure-3.12/*pytest",
        "-n*5",
        "-m?alone",
        "coverage*report",
    ],
)
@pytest.mark.parametrize("under", [(), ("nohup",)], ids=["alone", "under nohup"])
def test_every_step_can_fail_it(machine: Machine, failing: str, under: tuple[str, ...]) -> None:
    script = make_tree(machine, failing=failing)
    write_program(machine.bin, "python3.12", FAKE_PYTHON.format(version="3.12"))
    assert machine.run(script, *under).returncode == 5


def test_it_stops_before_all_else_where_programs_are_missing(machine: Machine) -> None:
    script = make_tree(machine)
    machine.bin.joinpath("jq").unlink()
    be_user(machine, 1000)
    result = machine.run(script)
    assert result.returncode == 1
    assert "sudo apt-get install jq" in result.stderr
    assert not machine.said.exists()


def test_arguments_run_a_part_of_the_tests(machine: Machine) -> None:
    result = machine.run(make_tree(machine), arguments=("tests/pure", "-k", "hold"))
    assert result.returncode == 0, result.stderr
    assert list_steps(machine) == [
        "scripts/setup dev",
        ".venv/bin/python -m pytest tests/pure -k hold",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["mypy", "coverage*run", "pure-3.12/*pytest", "-n*5"])
def test_ended_it_ends_its_steps(machine: Machine, step: str, number: int) -> None:
    script = make_tree(machine, waiting=step)
    write_program(machine.bin, "python3.12", FAKE_PYTHON.format(version="3.12"))
    environ = {"PATH": str(machine.bin), "HOME": str(machine.home)}
    with subprocess.Popen((script,), env=environ, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: "waits" in list_steps(machine))
        process.send_signal(number)
        assert process.wait() == 128 + number
    wait_until(lambda: "ended" in list_steps(machine))


def wait_until(fact: Callable[[], bool]) -> None:
    """Look again and again whether something is so; the time limit of tests ends that."""
    while not fact():
        time.sleep(0.01)
