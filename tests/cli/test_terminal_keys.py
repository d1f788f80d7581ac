"""`holdgate keys new`: a key that works, and lines that can be pasted."""

from __future__ import annotations

import re
import urllib.request
from hashlib import sha256
from pathlib import Path
from urllib.error import HTTPError

import pytest

from gateway.cli.keys import LENGTH, PREFIX, make_key, write_key
from gateway.config import load
from tests.test_command_line import holdgate, serving

KEY = re.compile(rf"^  ({PREFIX}\w+)$", re.MULTILINE)


def parts_of(text: str) -> tuple[str, str]:
    """Return the key, and the lines for the configuration."""
    keys = KEY.findall(text)
    assert len(keys) == 1
    assert text.count(keys[0]) == 1
    return keys[0], text[text.index("[[keys]]") :]


def test_the_lines_that_are_printed_let_the_key_in(tmp_path: Path) -> None:
    result = holdgate("keys", "new", "alice", "--admin", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert list(tmp_path.iterdir()) == []
    key, lines = parts_of(result.stdout)
    tmp_path.joinpath("holdgate.toml").write_text(lines)
    with serving(tmp_path) as gate:
        for sent, status in ((key, 200), ("", 401), (f"{key}x", 401)):
            assert ask_metrics(gate.url, sent) == status
    assert key not in gate.log.read_text()


def ask_metrics(url: str, key: str) -> int:
    """Ask for what only an admin may see; return the status."""
    request = urllib.request.Request(f"{url}/metrics", headers={"authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("owner", ["alice", "Ann O'Neil", 'a"b\\c', "小王", "{owner}"])
@pytest.mark.parametrize("admin", [False, True])
def test_the_lines_are_read_as_they_were_meant(owner: str, admin: bool, tmp_path: Path) -> None:
    key, lines = parts_of(write_key(owner, make_key(), admin))
    file = tmp_path / "holdgate.toml"
    file.write_text(lines)
    (section,) = load(file, {"HOME": "/"}).keys
    assert (section.owner, section.admin) == (owner, admin)
    assert section.sha256 == sha256(key.encode()).hexdigest()


def test_every_key_is_another_and_long() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {len(PREFIX) + LENGTH}
    assert make_key(lambda signs: signs[0]) == PREFIX + "a" * LENGTH


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new"], "OWNER"),
        (["new", ""], "must not be empty"),
        (["new", "  "], "must not be empty"),
        (["new", " alice"], "no space at its ends"),
        (["new", "a\nb"], "no line breaks"),
        (["new", "a\x1b[2J"], "no control characters"),
        (["new", "alice", "bob"], "bob"),
        (["new", "alice", "--amdin"], "--amdin"),
        (["nwe", "alice"], "new"),
        ([], "action"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = holdgate("keys", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "usage: holdgate" in result.stderr
    assert result.stdout == ""
    assert "\x1b" not in result.stderr
