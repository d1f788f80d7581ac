"""Values come from where the contract says, and the stronger source wins."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, Secret, load
from gateway.config.schema import camel, settings, variable_of

Loader = Callable[..., Config]

GLM = '[[upstreams]]\nid = "glm"\nbase_url = "https://glm.example/v1"\n'


def value_at(config: Config, path: str) -> Any:
    found: Any = config
    for name in path.split("."):
        found = getattr(found, name)
    return found


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    config = load(None, {}, cwd=tmp_path)
    assert config.server.port == 8787
    assert config.origins == {
        "upstreams": "the environment",
        "clock.due_window_ms": "the defaults of the demo",
    }


def test_the_named_file_is_read_instead_of_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "holdgate.toml").write_text("[server]\nport = 1")
    (tmp_path / "other.toml").write_bytes(b"\xef\xbb\xbf[server]\r\nport = 2\r\n")
    assert load(None, {}, cwd=tmp_path).server.port == 1
    assert load(Path("other.toml"), {}, cwd=tmp_path).server.port == 2
    assert load(tmp_path / "other.toml", {}).server.port == 2


def test_each_source_is_stronger_than_the_one_before(loaded: Loader) -> None:
    file = "[clock.ntp]\ntimeout_ms = 1"
    environ = {"HOLDGATE_CLOCK__NTP__TIMEOUT_MS": "2"}
    seed = environ | {"ROUTECODEX_CLOCK_NTP_TIMEOUT_MS": "3"}
    override = {"clock.ntp.timeout_ms": 4}
    configs = [
        loaded(file),
        loaded(file, environ),
        loaded(file, seed),
        loaded(file, seed, override),
    ]
    assert [config.clock.ntp.timeout_ms for config in configs] == [1, 2, 3, 4]
    assert [config.origins["clock.ntp.timeout_ms"] for config in configs] == [
        "holdgate.toml",
        "HOLDGATE_CLOCK__NTP__TIMEOUT_MS",
        "ROUTECODEX_CLOCK_NTP_TIMEOUT_MS",
        "the command line",
    ]


SESSION_DIRS = (
    ("--session-dir", "/a"),
    ("ROUTECODEX_SESSION_DIR", "/b"),
    ("HOLDGATE_SESSION_DIR", "/c"),
    ("HOLDGATE_SERVER__SESSION_DIR", "/d"),
    ("holdgate.toml", "/e"),
)


@pytest.mark.parametrize("first", range(len(SESSION_DIRS)))
def test_the_session_directory_is_the_first_of(loaded: Loader, first: int) -> None:
    given = dict(SESSION_DIRS[first:])
    overrides = {"server.session_dir": given.pop("--session-dir", None)}
    text = f'[server]\nsession_dir = "{given.pop("holdgate.toml")}"'
    assert loaded(text, given, overrides).server.session_dir == SESSION_DIRS[first][1]


@pytest.mark.parametrize(
    "text, directory",
    [
        ("~", "/home/someone"),
        ("~/x/y", "/home/someone/x/y"),
        ("/x/~", "/x/~"),
        ("x", "{cwd}/x"),
    ],
)
def test_directories_are_made_whole(
    loaded: Loader, tmp_path: Path, text: str, directory: str
) -> None:
    config = loaded(f'[stop_message]\nfiles_dir = "{text}"', {"HOLDGATE_SESSION_DIR": text})
    expected = directory.format(cwd=tmp_path)
    assert (config.server.session_dir, config.stop_message.files_dir) == (expected, expected)


def test_without_home_the_account_says_where_it_is(tmp_path: Path) -> None:
    config = load(None, {}, cwd=tmp_path)
    assert config.server.session_dir == str(Path.home() / ".holdgate/sessions")
    windows = load(None, {"USERPROFILE": "/users/someone"}, cwd=tmp_path)
    assert windows.server.session_dir == "/users/someone/.holdgate/sessions"


def test_only_the_given_environment_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "HOLDGATE_SERVER__PORT", "1")
    assert load(None, {"HOME": "/"}, cwd=tmp_path).server.port == 8787


@pytest.mark.parametrize(
    "variable, text, value",
    [
        *[("HOLDGATE_CLOCK__ENABLED", word, True) for word in ("1", "true", "ON", " yes ")],
        *[("HOLDGATE_CLOCK__ENABLED", word, False) for word in ("0", "False", "off", "no")],
        ("HOLDGATE_SERVER__PORT", "9000", 9000),
        ("HOLDGATE_SERVER__PORT", "9_000", 9000),
        ("HOLDGATE_SERVER__HOST", "localhost", "localhost"),
        ("HOLDGATE_SERVER__HOST", "::1", "::1"),
        ("HOLDGATE_SERVER__HOSTS", "a, b,,c ", ("a", "b", "c")),
        ("HOLDGATE_SERVER__HOSTS", ' ["a,b", "c"]', ("a,b", "c")),
        ("HOLDGATE_SERVER__HOSTS", "", ()),
        ("HOLDGATE_CLOCK__TIMEZONE", "", ""),
        ("HOLDGATE_CLOCK__TIMEZONE", "Asia/Shanghai", "Asia/Shanghai"),
        ("HOLDGATE_CLOCK__STANDARD_TOOLS", '[{"a": null}]', ('{"a":null}',)),
        ("HOLDGATE_STOP_MESSAGE__BD_MODE", "runtime", "runtime"),
        ("ROUTECODEX_CLOCK_NTP", "0", False),
        ("ROUTECODEX_CLOCK_NTP", "false", False),
        ("ROUTECODEX_CLOCK_NTP", "off", False),
        ("ROUTECODEX_CLOCK_NTP", "", True),
        ("ROUTECODEX_CLOCK_NTP_SERVERS", "h1,h2", ("h1", "h2")),
        ("ROUTECODEX_CLOCK_NTP_STALE_AFTER_MS", "5", 5),
        ("ROUTECODEX_CLOCK_NTP_TIMEOUT_MS", "5", 5),
        ("ROUTECODEX_STOPMESSAGE_BD_MODE", "heuristic", "heuristic"),
    ],
)
def test_variables_are_read_by_the_kind_of_their_key(
    loaded: Loader, variable: str, text: str, value: object
) -> None:
    paths = {variable_of(path): path for path in settings()} | {
        "ROUTECODEX_CLOCK_NTP": "clock.ntp.enabled",
        "ROUTECODEX_CLOCK_NTP_SERVERS": "clock.ntp.servers",
        "ROUTECODEX_CLOCK_NTP_STALE_AFTER_MS": "clock.ntp.stale_after_ms",
        "ROUTECODEX_CLOCK_NTP_TIMEOUT_MS": "clock.ntp.timeout_ms",
        "ROUTECODEX_STOPMESSAGE_BD_MODE": "stop_message.bd_mode",
    }
    assert value_at(loaded("", {variable: text}), paths[variable]) == value


def test_an_array_of_tables_can_be_given_as_json(loaded: Loader) -> None:
    rows = '[{"id": "b", "baseUrl": "https://b.example", "headers": {"x-A": "1"}}]'
    config = loaded(GLM, {"HOLDGATE_UPSTREAMS": rows})
    assert [upstream.id for upstream in config.upstreams] == ["b"]
    assert config.upstreams[0].headers == (("x-A", Secret("1")),)
    assert not config.demo


def test_other_names_are_left_alone(loaded: Loader) -> None:
    names = ("HOLDGATE_KEY", "HOLDGATE_URL", "HOLDGATE_SERVER", "OTHER__NAME", "holdgate_a__b")
    assert loaded("", dict.fromkeys(names, "x")) == loaded()


def test_every_key_can_be_written_in_camel_case(loaded: Loader) -> None:
    # A lease may not be shorter than this.
    numbers = count(3000)
    integers = [path for path, key in settings().items() if key.kind is int and "_" in path]
    given = {path: next(numbers) for path in integers}
    text = "".join(
        ".".join(map(camel, path.split("."))) + f" = {value}\n" for path, value in given.items()
    )
    config = loaded(text)
    assert {path: value_at(config, path) for path in given} == given
    assert "clock.holdMaxMs" in text
    assert "stopMessage.maxRepeats" in text


def test_overrides_that_are_none_count_for_nothing(loaded: Loader) -> None:
    assert loaded("", {}, {"server.port": None}) == loaded()


def test_tool_declarations_are_kept_as_json(loaded: Loader) -> None:
    text = """[clock]\nstandard_tools = [{ type = "function", n = 1 }, '{"type": "x"}']"""
    tools = ('{"type":"function","n":1}', '{"type":"x"}')
    assert loaded(text).clock.standard_tools == tools


def test_nobody_configured_an_upstream(loaded: Loader) -> None:
    config = loaded("", {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""})
    assert (config.demo, config.upstreams, config.clock.due_window_ms) == (True, (), 0)
    assert loaded("[clock]\ndue_window_ms = 5").clock.due_window_ms == 5
    assert loaded('[[models]]\nname = "m"\nroutes = ["demo/demo"]').demo


def test_well_known_keys_bring_their_upstreams(loaded: Loader) -> None:
    environ = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a"}
    config = loaded("", environ)
    assert config.demo
    assert [(u.id, u.dialect, u.base_url, u.api_key, u.models) for u in config.upstreams] == [
        ("openai", "openai-chat", "https://api.openai.com/v1", Secret("sk-o"), ("*",)),
        (
            "anthropic",
            "anthropic-messages",
            "https://api.anthropic.com/v1",
            Secret("sk-a"),
            ("*",),
        ),
    ]
    assert loaded('[[models]]\nname = "m"\nroutes = ["openai/gpt-5"]', environ).models


def test_listed_upstreams_stand_alone(loaded: Loader) -> None:
    config = loaded(GLM, {"OPENAI_API_KEY": "sk-o"})
    assert [upstream.id for upstream in config.upstreams] == ["glm"]
    assert (config.demo, config.clock.due_window_ms) == (False, 60_000)


def test_an_empty_list_keeps_the_demo_alone(loaded: Loader) -> None:
    config = loaded("upstreams = []", {"OPENAI_API_KEY": "sk-o"})
    assert (config.demo, config.upstreams) == (True, ())


def test_keys_open_the_gateway_to_strangers(loaded: Loader) -> None:
    config = loaded('[server]\nhost = "0.0.0.0"\n[[keys]]\nowner = "a"\nkey = "k"')
    assert config.server.host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_key(loaded: Loader, host: str) -> None:
    assert loaded("", {}, {"server.host": host}).server.host == host
