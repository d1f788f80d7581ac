"""docs/clients.md: its table is that of the suite, its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .catalogue import CLIENTS
from .node import DIRECTORY
from .processes import Running
from .speakers import SPEAKERS
from .table import PAGE, table, without_versions, written

TEXT = PAGE.read_text()
LIBRARIES = [speaker.name for speaker in SPEAKERS if not speaker.is_agent]
NAMES = list(dict.fromkeys([client.name for client in CLIENTS] + LIBRARIES))
HERE = "http://127.0.0.1:8787"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
BLOCK = re.compile(r"```(python|js|sh)\n(.*?)```", re.DOTALL)
PROGRAMS = {
    "python": (sys.executable, "-"),
    "js": ("node", "--input-type=module", "-"),
    "sh": ("sh",),
}
PROMPT = "Hello!"
# A shorter answer than the demo model gives to that, and a word of it.
QUICKER = "demo: tokens=12 delay_ms=1"
ANSWER = "script"


def examples() -> list[tuple[str, str, str]]:
    """List the examples of the clients in the table: whose, in which language, what."""
    _, *parts = SECTION.split(TEXT)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return [(name, *found) for name in NAMES for found in BLOCK.findall(sections[name])]


@pytest.mark.usefixtures("curl")
def test_the_table_is_that_of_the_suite() -> None:
    theirs, ours = without_versions(written(TEXT)), without_versions(table())
    assert theirs == ours, "run python -m tests.clients.table"


def test_every_client_has_an_example() -> None:
    assert {name for name, _, _ in examples()} == set(NAMES)


@pytest.mark.parametrize(
    "language, code", [example[1:] for example in examples()], ids=[e[0] for e in examples()]
)
@pytest.mark.usefixtures("node", "curl")
def test_the_examples_run(language: str, code: str, gateway: Running, tmp_path: Path) -> None:
    assert HERE in code
    assert PROMPT in code
    done = subprocess.run(
        PROGRAMS[language],
        input=code.replace(HERE, gateway.url).replace(PROMPT, QUICKER),
        capture_output=True,
        text=True,
        # Node looks for packages from where it runs.
        cwd=DIRECTORY if language == "js" else tmp_path,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout
