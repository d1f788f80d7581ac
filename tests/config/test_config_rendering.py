"""What is printed is TOML, says where values came from, and loads as the same configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from gateway.config import Config, ConfigError, load, render
from gateway.config.checks import OneOf, Range
from gateway.config.schema import ConfigKey, settings
from gateway.config.sections import Texts

Loader = Callable[..., Config]

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
RULED = (
    "server.host",
    "server.workers",
    "server.session_dir",
    "stop_message.files_dir",
    "stop_message.bd_dir",
)


def values(key: ConfigKey) -> st.SearchStrategy[Any] | None:
    """Return what a key may hold, if its checks say so plainly."""
    for check in key.checks:
        if isinstance(check, Range):
            return st.integers(check.low, check.high)
        if isinstance(check, OneOf):
            return st.sampled_from(check.choices)
    if key.checks:
        return None
    return {bool: st.booleans(), Texts: st.lists(TEXT), str: TEXT}.get(key.kind)


CHOICES = {
    path: found
    for path, key in settings().items()
    if path not in RULED and (found := values(key)) is not None
}

AGENT = st.fixed_dictionaries(
    {"id": st.just("a"), "model": st.just("demo"), "system": TEXT, "name": TEXT}
)


@trials(max_examples=30, deadline=None)
@given(st.fixed_dictionaries({}, optional=CHOICES), st.lists(AGENT, max_size=1))
def test_what_is_printed_loads_again(
    tmp_path_factory: pytest.TempPathFactory, overrides: dict[str, object], agents: list[object]
) -> None:
    file = tmp_path_factory.getbasetemp() / "printed.toml"
    config = load(None, {"HOME": "/"}, overrides | {"agents": agents}, cwd=file.parent)
    file.write_text(render(config))
    assert load(file, {"HOME": "/"}) == config


def test_every_kind_of_key_is_tried() -> None:
    assert {settings()[path].kind for path in CHOICES} == {bool, int, str, Texts}


def test_sources_are_named(loaded: Loader) -> None:
    text = """
    [server]
    drain_ms = 5
    [[upstreams]]
    id = "glm"
    base_url = "https://glm.example/v1"
    headers = { a = "1", b = "2" }
    """
    config = loaded(text, {"HOLDGATE_CLOCK__TICK_MS": "7"}, {"server.port": 0})
    lines = render(config).splitlines()
    assert lines[:3] == ["[server]", 'host = "127.0.0.1"', "port = 0  # from the command line"]
    assert "drain_ms = 5  # from holdgate.toml" in lines
    assert "workers = 1" in lines
    assert "[[upstreams]]  # from holdgate.toml" in lines
    assert 'headers = { "a" = "***", "b" = "***" }' in lines
    assert "[cron]" in lines
    assert "tick_ms = 7  # from HOLDGATE_CLOCK__TICK_MS" in lines


def test_the_demo_is_announced(loaded: Loader) -> None:
    printed = render(loaded("", {"OPENAI_API_KEY": "sk-canary"}))
    assert printed.startswith("# No upstream is configured: the embedded demo answers.\n")
    assert "due_window_ms = 0  # from the defaults of the demo\n" in printed
    assert tomllib.loads(printed)["upstreams"][0]["api_key_env"] == "OPENAI_API_KEY"


def test_a_configuration_made_by_hand_can_be_printed() -> None:
    assert tomllib.loads(render(Config()))["server"]["session_dir"] == "~/.holdgate/sessions"


def test_a_printed_literal_is_not_taken_for_the_secret(loaded: Loader, tmp_path: Path) -> None:
    printed = render(loaded('[[keys]]\nowner = "a"\nkey = "k"'))
    (tmp_path / "printed.toml").write_text(printed)
    with pytest.raises(ConfigError, match=r"^keys\[0\]\.key_sha256: is the mask of a secret"):
        load(tmp_path / "printed.toml", {})


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "{ input = 2.5, cached = 0.25, output = 10 }",
            "{ input = 2.5, cached = 0.25, output = 10 }",
        ),
        ("{ output = 0, input = 0.000001 }", "{ output = 0, input = 0.000001 }"),
        ("{ input = 1e3, output = 0.1 }", "{ input = 1000.0, output = 0.1 }"),
    ],
)
def test_prices_are_shown_as_they_were_written(
    loaded: Loader, tmp_path: Path, written: str, shown: str
) -> None:
    text = f"""
    [[upstreams]]
    id = "glm"
    base_url = "https://glm.example/v1"
    [[models]]
    name = "priced"
    routes = ["glm/a"]
    price = {written}
    [[models]]
    name = "free"
    routes = ["glm/a"]
    """
    config = loaded(text)
    printed = render(config)
    assert f"\nprice = {shown}\n" in printed
    assert printed.count("price") == 1 + printed.count('name = "priced"')
    file = tmp_path / "printed.toml"
    file.write_text(printed)
    assert load(file, {"HOME": "/"}).models == config.models


def test_two_mistakes_in_a_price_are_two(loaded: Loader) -> None:
    text = """
    [[upstreams]]
    id = "glm"
    base_url = "https://glm.example/v1"
    [[models]]
    name = "priced"
    routes = ["glm/a"]
    price = { input = -1, output = -1 }
    """
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    assert len(caught.value.problems) == 2
