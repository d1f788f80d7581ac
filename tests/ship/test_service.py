"""The systemd unit: systemd understands it, it fits the gateway, and it gives few rights."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from gateway.cli.main import build_parser
from gateway.config import load
from tests.run import as_process

from .asking import open_stream
from .conftest import ROOT

UNIT = ROOT / "deploy/holdgate.service"
# 0 is the best that `systemd-analyze security` gives, 100 the worst.
MOST_EXPOSED = 20
SECTIONS = {"Unit", "Service", "Install"}
# SQLite gives its files the owner of the database, but only as root.
ONLY_AS_ROOT = {"fchown"}
NO_NTP = {"ROUTECODEX_CLOCK_NTP": "off"}
ANALYZE = shutil.which("systemd-analyze")


def read_unit() -> dict[str, list[str]]:
    """Read the settings of all sections; a name may be there more than once."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def test_systemd_understands_it(tmp_path: Path) -> None:
    if ANALYZE is None:
        pytest.fail("This test needs systemd-analyze (Debian: systemd).", pytrace=False)
    # The command has to exist where it is verified.
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.M)
    unit = tmp_path / "holdgate.service"
    unit.write_text(text)
    result = subprocess.run((ANALYZE, "verify", unit), capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_it_gives_few_rights() -> None:
    if ANALYZE is None:
        pytest.fail("This test needs systemd-analyze (Debian: systemd).", pytrace=False)
    command = (ANALYZE, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT)
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_system_call_of_a_gateway_is_allowed(tmp_path: Path) -> None:
    if ANALYZE is None:
        pytest.fail("This test needs systemd-analyze (Debian: systemd).", pytrace=False)
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("This test needs strace, which is not installed.", pytrace=False)
    table = tmp_path / "calls"
    under = (strace, "-f", "-c", "-o", str(table))
    with as_process(tmp_path, NO_NTP, under=under, grace=30) as gate:
        use_gateway(gate.url)
        # strace itself does not listen to signals.
        (child,) = Path(f"/proc/{gate.pid}/task/{gate.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        assert gate.wait(30) == 0
    used = set(re.findall(r"^ *[\d.]+ .* (\w+)$", table.read_text(), re.MULTILINE)) - {"total"}
    assert {"execve", "accept4", "fdatasync", "setpriority"} <= used
    assert used - ONLY_AS_ROOT - list_allowed_calls() == set()


def use_gateway(url: str) -> None:
    """Make it do what it can: stream, hold, keep a job, and handle a large request in a helper."""
    for text in ("remind me in 1 second to drink tea", "demo: tokens=3\n" + "word " * 60_000):
        with open_stream(url, text, session="tea") as pieces:
            assert list(pieces)
    job = {"session_id": "tea", "message": "Hello!", "schedule_text": "in 1 second"}
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        client.post("/api/cron/add", json=job).raise_for_status()
        assert client.get("/api/sessions/tea/inbox?wait_ms=20000").raise_for_status().json()


def list_allowed_calls() -> set[str]:
    """Return the system calls that the filter of the unit leaves."""
    allowed: set[str] = set()
    for line in read_unit()["SystemCallFilter"]:
        named = set[str]().union(*map(expand_group, line.lstrip("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def expand_group(group: str) -> set[str]:
    """Return the system calls of a group and of those in it."""
    assert ANALYZE
    command = (ANALYZE, "syscall-filter", group)
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    names = {line.strip() for line in lines[1:] if line.strip() and "#" not in line}
    groups = {name for name in names if name.startswith("@")}
    return (names - groups).union(*(expand_group(inner) for inner in groups))


def test_every_line_is_a_section_a_setting_or_a_comment() -> None:
    lines = [line for line in UNIT.read_text().splitlines() if line and not line.startswith("#")]
    assert {line.strip("[]") for line in lines if line.startswith("[")} == SECTIONS
    assert [ln for ln in lines if ln[0] != "[" and not re.match(r"[A-Z]\w+=", ln)] == []


def test_what_it_starts_is_a_command_that_there_is() -> None:
    (command,) = read_unit()["ExecStart"]
    program, *arguments = command.split()
    assert program.endswith("/bin/holdgate")
    assert vars(build_parser().parse_args(arguments))["config"] == Path(
        "/etc/holdgate/holdgate.toml"
    )


def test_a_reload_sends_the_signal_that_reloads() -> None:
    assert read_unit()["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_state_goes_where_it_may_write(tmp_path: Path) -> None:
    settings = read_unit()
    environ = dict(line.split("=", 1) for line in settings["Environment"])
    config = load(None, environ, {}, tmp_path)
    (directory,) = settings["StateDirectory"]
    assert Path(config.server.session_dir).is_relative_to(Path("/var/lib", directory))


def test_it_waits_longer_than_a_drain_takes(tmp_path: Path) -> None:
    (seconds,) = read_unit()["TimeoutStopSec"]
    assert int(seconds) * 1000 > load(None, {}, {}, tmp_path).server.drain_ms
    assert read_unit()["KillMode"] == ["mixed"]


@pytest.mark.parametrize(
    "setting",
    ["DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "MemoryDenyWriteExecute"],
)
def test_it_is_hardened(setting: str) -> None:
    assert read_unit()[setting] == ["yes"]
