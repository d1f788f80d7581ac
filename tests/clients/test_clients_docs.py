"""docs/clients.md: its table is that of the suite, its examples in JavaScript run."""

from __future__ import annotations

import re
import subprocess

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
NODE = ("node", "--input-type=module", "-")
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


SCRIPTS = [(name, code) for name, language, code in examples() if language == "js"]


@pytest.mark.parametrize("code", [code for _, code in SCRIPTS], ids=[name for name, _ in SCRIPTS])
@pytest.mark.usefixtures("node")
def test_the_examples_run(code: str, gateway: Running) -> None:
    assert HERE in code
    assert PROMPT in code
    done = subprocess.run(
        NODE,
        input=code.replace(HERE, gateway.url).replace(PROMPT, QUICKER),
        capture_output=True,
        text=True,
        # Node looks for packages from where it runs.
        cwd=DIRECTORY,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert ANSWER in done.stdout
