"""The suite in the background and under nohup, where the shell has signals ignored."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INTERRUPTED = "tests/cli/test_terminal_chat.py::test_the_chat_ends"
IGNORING = "trap '' INT HUP; exec \"$@\""


@pytest.mark.parametrize("how", [(), ("-n", "1")], ids=["alone", "with workers"])
def test_processes_of_tests_can_be_interrupted(how: tuple[str, ...]) -> None:
    pytest_command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *how)
    result = subprocess.run(
        ("sh", "-c", IGNORING, "sh", *pytest_command, INTERRUPTED),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout
