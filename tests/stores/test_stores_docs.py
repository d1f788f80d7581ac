"""What docs/stores.md says, where the code can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.stores import InUse, Stored
from gateway.stores.disk import ProcessLock, name_of
from gateway.stores.documents import LARGEST_DOCUMENT, DocumentKey, Shape, unseal
from gateway.stores.group_commit import LARGEST_BATCH, LONGEST_QUEUE

PAGE = Path(__file__).parents[2].joinpath("docs/stores.md").read_text()


def test_the_names() -> None:
    rows = re.findall(r"^\| `(local|ann)` \| `(.+?)` \| `(.+?)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for owner, session, name in rows:
        assert name_of(owner, session) == name


def test_the_form() -> None:
    [example] = re.findall(r"```json\n(.+)\n```", PAGE)
    shape = Shape("clock", 1, (), lambda _: {}, lambda fields: tuple(fields["tasks"]))
    key = DocumentKey("clock", "local", "7f1d0c6e-52ab")
    assert unseal(key, Stored(example.encode(), 1), shape) == ()


def test_the_limits() -> None:
    assert f"at most {LARGEST_DOCUMENT} bytes" in PAGE
    assert f"more than {LONGEST_QUEUE} changes" in PAGE
    assert f"up to {LARGEST_BATCH} changes" in PAGE


def test_the_refusal(tmp_path: Path) -> None:
    first, second = (ProcessLock(tmp_path / ".lock", "The session directory") for _ in range(2))
    first.hold()
    with pytest.raises(InUse) as refusal:
        second.hold()
    first.release()
    said = re.sub(r"\d+", "4711", refusal.value.message).partition("directory")[2]
    assert said in PAGE
