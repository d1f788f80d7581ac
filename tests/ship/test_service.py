"""The systemd unit: systemd understands it, it fits the gateway, and it gives few rights."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.main import build_parser
from gateway.config import load

from .conftest import ROOT

UNIT = ROOT / "deploy/holdgate.service"
# 0 is the best that `systemd-analyze security` gives, 100 the worst.
MOST_EXPOSED = 20
SECTIONS = {"Unit", "Service", "Install"}
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
        pytest.skip("systemd-analyze is not installed")
    # The command has to exist where it is verified.
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.M)
    unit = tmp_path / "holdgate.service"
    unit.write_text(text)
    result = subprocess.run((ANALYZE, "verify", unit), capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_it_gives_few_rights() -> None:
    if ANALYZE is None:
        pytest.skip("systemd-analyze is not installed")
    command = (ANALYZE, "security", "--offline=true", f"--threshold={MOST_EXPOSED}", UNIT)
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


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
