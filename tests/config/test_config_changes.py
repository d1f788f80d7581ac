"""What a configuration that was read again changes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, ConfigError, ConfigSource
from gateway.config.changes import FIXED_LIMITS, RELOADED, apply_reloadable, compare
from gateway.config.schema import settings
from gateway.config.sections import LimitsSection

Loader = Callable[..., Config]
PAGE = Path(__file__).parents[2].joinpath("docs/operations.md").read_text()

BEFORE = """
[server]
port = 8000
[clock]
tick_ms = 1000
[limits]
turns = 5
offload_ms = 1000
[[keys]]
owner = "ann"
key = "ann's first"
[[keys]]
owner = "bob"
key = "bob's"
[[upstreams]]
id = "a"
base_url = "http://127.0.0.1:1/v1"
api_key = "a's secret"
[[upstreams]]
id = "b"
base_url = "http://127.0.0.1:2/v1"
[[models]]
name = "m"
routes = ["a/x"]
[[agents]]
id = "helper"
model = "m"
[[webhooks]]
owner = "ann"
url = "http://127.0.0.1:3/hidden"
secret = "hook's secret"
"""
CHANGES = (
    ("port = 8000", "port = 9000"),
    ("tick_ms = 1000", "tick_ms = 2000"),
    ("turns = 5", "turns = 6"),
    ("offload_ms = 1000", "offload_ms = 2000"),
    ('"bob"\nkey = "bob\'s"', '"carol"\nkey = "carol\'s"'),
    ("ann's first", "ann's second"),
    ("a's secret", "a's other secret"),
    ('id = "b"', 'id = "c"'),
    ('name = "m"', 'name = "n"'),
    ('model = "m"', 'model = "n"'),
    ("hook's secret", "hook's other secret"),
)


def after() -> str:
    text = BEFORE
    for old, new in CHANGES:
        assert old in text
        text = text.replace(old, new)
    return text


def test_changes_are_named_and_nothing_of_them_is_secret(loaded: Loader) -> None:
    changes = compare(loaded(BEFORE), loaded(after()))
    assert changes.tables == {
        "upstreams_added": ("c",),
        "upstreams_removed": ("b",),
        "upstreams_changed": ("a",),
        "models_added": ("n",),
        "models_removed": ("m",),
        "keys_added": ("carol",),
        "keys_removed": ("bob",),
        "keys_changed": ("ann",),
        "agents_changed": ("helper",),
        "webhooks_changed": ("ann",),
    }
    assert changes.limits == ("turns",)
    assert changes.restart == ("server.port", "clock.tick_ms", "limits.offload_ms")
    assert "secret" not in repr(changes)


def test_nothing_changes_if_nothing_is_different(loaded: Loader) -> None:
    changes = compare(loaded(BEFORE), loaded(BEFORE))
    assert (changes.tables, changes.limits, changes.restart) == ({}, (), ())


def test_what_needs_a_restart_keeps_its_value(loaded: Loader) -> None:
    running, found = loaded(BEFORE), loaded(after())
    merged = apply_reloadable(running, found)
    assert (merged.server, merged.clock) == (running.server, running.clock)
    assert merged.limits.turns == 6
    assert merged.limits.offload_ms == 1000
    assert [key.owner for key in merged.keys] == ["ann", "carol"]
    # It stays to be done until the restart.
    assert compare(merged, found).restart == compare(running, found).restart
    assert compare(merged, found).tables == {}


LIVE_LIMITS = {f"limits.{field.name}" for field in fields(LimitsSection)} - {
    f"limits.{name}" for name in FIXED_LIMITS
}


def change_key(section: Any, path: str) -> Any:
    """Return a section with another value of one key."""
    name, _, rest = path.partition(".")
    value = getattr(section, name)
    other = change_key(value, rest) if rest else change_value(value)
    return replace(section, **{name: other})


def change_value(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else (*value, "x")


@pytest.mark.parametrize("path", [p for p in settings() if p.partition(".")[0] not in RELOADED])
def test_every_other_key_needs_a_restart_and_says_so(path: str, loaded: Loader) -> None:
    running = loaded(BEFORE)
    found = change_key(running, path)
    changes, merged = compare(running, found), apply_reloadable(running, found)
    if path in LIVE_LIMITS:
        assert changes.limits == (path.removeprefix("limits."),)
        assert (changes.restart, merged.limits) == ((), found.limits)
    else:
        assert (changes.limits, changes.restart) == ((), (path,))
        assert merged == running


def test_the_limits_that_need_a_restart_are_documented() -> None:
    assert {field.name for field in fields(LimitsSection)} >= FIXED_LIMITS
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `limits.header_bytes`")]
    assert {name.removeprefix("limits.") for name in re.findall(r"`(.*?)`", row)} == FIXED_LIMITS
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `[[keys]]`")]
    assert set(re.findall(r"`\[\[(.*?)\]\]`", row)) == set(RELOADED)


KEYED = '[server]\nhost = "0.0.0.0"\n[[keys]]\nowner = "ann"\nkey = "secret"\n'


def test_keys_do_not_go_while_strangers_can_connect(loaded: Loader) -> None:
    """The file is fine by itself, but the address that it changes stays until the restart."""
    running, found = loaded(KEYED), loaded("")
    with pytest.raises(ConfigError) as caught:
        apply_reloadable(running, found)
    (problem,) = caught.value.problems
    assert problem.where == "server.host"
    assert "add a key" in problem.message


def source_in(directory: Path, path: Path | None = None) -> ConfigSource:
    return ConfigSource(path, {"HOME": "/nowhere"}, {"server.port": 9999}, directory)


def test_a_source_is_read_again_with_all_it_was_read_with(tmp_path: Path) -> None:
    source, file = source_in(tmp_path), tmp_path / "holdgate.toml"
    file.write_text("[limits]\nturns = 5\n")
    running = source.load()
    file.write_text("[server]\nport = 1234\n[limits]\nturns = 6\n")
    found = source.load_again(running)
    assert (found.limits.turns, found.server.port, found.file) == (6, 9999, "holdgate.toml")


def test_a_file_may_come_later_but_not_go(tmp_path: Path) -> None:
    source, file = source_in(tmp_path), tmp_path / "holdgate.toml"
    running = source.load()
    assert source.load_again(running).file == ""
    file.write_text("")
    running = source.load_again(running)
    assert running.file == "holdgate.toml"
    file.unlink()
    with pytest.raises(ConfigError, match=r"holdgate\.toml: cannot be read: No such file"):
        source.load_again(running)


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    """Its second reading would be empty, and a gateway without keys."""
    file = tmp_path / "given.toml"
    file.write_text("")
    source = source_in(tmp_path, file)
    running = source.load()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="is not a regular file, so it is not read again"):
        source.load_again(running)
