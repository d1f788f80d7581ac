"""Every example of README and docs works as it is written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

import pytest

from gateway.config import load

from .blocks import BLOCKS, FENCE, MARKS, ROOT, TRANSLATED, FencedBlock
from .running import BlockOutcome, environ_for, free_port, run_page

RUN = [block for block in BLOCKS if block.language in ("sh", "python") and block.mark != "not run"]
SETTINGS = [block for block in BLOCKS if block.language == "toml" and block.mark != "not run"]
MOST_NOT_RUN = 12
AT_ONCE = 6

BlockOutcomes = Callable[[FencedBlock], BlockOutcome]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockOutcomes]:
    """Run pages side by side, since most of the time is spent waiting for reminders."""
    pages = {name: list(blocks) for name, blocks in groupby(RUN, key=lambda block: block.page)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            name: pool.submit(run_page, blocks, tmp_path_factory.mktemp("page"))
            for name, blocks in pages.items()
        }
        yield lambda block: running[block.page].result()[block]
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("block", RUN, ids=str)
def test_the_example_runs_as_written(block: FencedBlock, outcomes: BlockOutcomes) -> None:
    outcome = outcomes(block)
    assert outcome.is_fine, outcome.written


@pytest.mark.parametrize("block", SETTINGS, ids=str)
def test_the_configuration_is_complete(block: FencedBlock, tmp_path: Path) -> None:
    file = tmp_path / "holdgate.toml"
    file.write_text(block.code)
    secrets = dict.fromkeys(re.findall(r'_env = "(\w+)"', block.code), "secret")
    load(file, secrets, {}, tmp_path)


def test_few_examples_are_not_run_and_each_says_why() -> None:
    left_out = [block for block in BLOCKS if block.mark == "not run"]
    assert all(len(block.about.split()) > 2 for block in left_out)
    # A translation leaves out what its original does.
    originals = [block for block in left_out if not block.page.endswith(TRANSLATED)]
    assert len(originals) <= MOST_NOT_RUN, "\n".join(f"{b}: {b.about}" for b in originals)


def test_every_fence_names_its_language_and_every_mark_is_known() -> None:
    assert [str(block) for block in BLOCKS if not block.language] == []
    assert {block.mark for block in BLOCKS} <= {"", *MARKS}


def test_every_fence_is_found() -> None:
    for page in {block.page for block in BLOCKS}:
        text = FENCE.sub("", ROOT.joinpath(page).read_text())
        assert not re.search(r"^ *```", text, re.MULTILINE), page


def test_the_inbox_loop_does_not_spin_when_the_gateway_is_away(tmp_path: Path) -> None:
    (loop,) = (block for block in RUN if block.page == "docs/delivery.md" and "while" in block.code)
    code = loop.code.replace("8787", str(free_port()))
    result = subprocess.run(
        ("bash", "-euo", "pipefail", "-c", f"sleep() {{ echo slept; exit; }}\n{code}"),
        env=environ_for(tmp_path),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert result.stdout == "slept\n"
