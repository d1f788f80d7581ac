"""What `holdgate serve` says at its start, to a person and to a log."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.startup import find_console, write_advice, write_summary
from gateway.config import load
from tests.docs.running import free_port
from tests.test_command_line import serving

from .seat import seated

HOME = {"HOME": "/home/ann"}
CONFIG = """
[server]
session_dir = "state"
[[upstreams]]
id = "there"
base_url = "http://user:canary-password@127.0.0.1:{there}/v1/canary-path"
api_key = "canary-key"
headers = {{ "x-extra" = "canary-header" }}
models = ["large", "small"]
[[upstreams]]
id = "away"
base_url = "http://127.0.0.1:{away}/v1"
dialect = "anthropic-messages"
[[agents]]
id = "helper"
model = "large"
system = "canary-words"
[[keys]]
owner = "alice"
key = "canary-owner-key"
"""


@pytest.fixture
def there() -> Iterator[int]:
    """A port on which somebody accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def lines_of(log: Path, *events: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if line["event"] in events]


def wait_for(log: Path, event: str, number: int) -> list[dict[str, Any]]:
    """Wait until the log has so many lines about an event."""
    end = time.monotonic() + 20
    while len(found := lines_of(log, event)) < number:
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    return found


class TestLog:
    def test_what_is_served_goes_to_the_log(self, there: int, tmp_path: Path) -> None:
        away = free_port()
        file = tmp_path / "holdgate.toml"
        file.write_text(CONFIG.format(there=there, away=away))
        with serving(tmp_path, "--log-format", "json") as gate:
            wait_for(gate.log, "upstream", 2)
            gate.signal(signal.SIGTERM)
            assert gate.read_output() == f"console at {gate.url}/console/\n"
            assert gate.wait(20) == 0
        (said,) = lines_of(gate.log, "serving")
        assert {name: said[name] for name in said if name not in ("time", "level", "event")} == {
            "url": gate.url,
            "file": "holdgate.toml",
            "upstreams": "there, away",
            "models": "large, small, away/*",
            "agents": "helper",
            "store": f"files in {tmp_path}/state",
            "keys": 1,
        }
        upstreams = {line["id"]: line for line in lines_of(gate.log, "upstream")}
        assert upstreams["there"]["host"] == f"127.0.0.1:{there}"
        assert upstreams["there"]["dialect"] == "openai-chat"
        assert upstreams["there"]["reachable"] is True
        assert "why" not in upstreams["there"]
        assert upstreams["away"]["dialect"] == "anthropic-messages"
        assert upstreams["away"]["reachable"] is False
        assert upstreams["away"]["why"] == "The upstream refused the connection."
        assert "canary" not in gate.log.read_text()

    def test_an_upstream_that_is_silent_delays_neither_start_nor_end(
        self, there: int, tmp_path: Path
    ) -> None:
        # The handshake gets no answer for as long as the check takes.
        rows = [{"id": "silent", "base_url": f"https://127.0.0.1:{there}/v1"}]
        begun = time.monotonic()
        with serving(tmp_path, "--log-format", "json", HOLDGATE_UPSTREAMS=json.dumps(rows)) as gate:
            with urllib.request.urlopen(f"{gate.url}/readyz", timeout=20) as answer:
                assert answer.status == 200
            ready = time.monotonic()
            gate.signal(signal.SIGTERM)
            assert gate.wait(20) == 0
            ended = time.monotonic()
        (said,) = lines_of(gate.log, "serving")
        assert said["file"] is None
        assert lines_of(gate.log, "upstream") == []
        assert ended - ready < 2.5, (ready - begun, ended - ready)


class TestTerminal:
    async def test_a_person_sees_it_below_the_address(self, there: int, tmp_path: Path) -> None:
        away = free_port()
        file = tmp_path / "my.toml"
        file.write_text(CONFIG.format(there=there, away=away))
        arguments = ("serve", "--port", "0", "--config", str(file), "--session-dir", str(tmp_path))
        async with seated(*arguments, HOME=str(tmp_path), ROUTECODEX_CLOCK_NTP="off") as seat:
            await seat.reads(f"upstream there: 127.0.0.1:{there} is reachable\r\n")
            await seat.reads(
                f"upstream away: 127.0.0.1:{away} is not reachable: "
                "The upstream refused the connection.\r\n"
            )
            seat.process.send_signal(signal.SIGTERM)
            await seat.sees_end()
            assert await seat.ended() == 0
        assert seat.lines[0].startswith("listening on http://127.0.0.1:")
        url = seat.lines[0].removeprefix("listening on ")
        assert seat.lines[1] == f"console at {url}/console/"
        assert f"serves {file}:" in seat.written
        assert f"  upstreams  there  openai-chat         127.0.0.1:{there}\r\n" in seat.written
        assert f"             away   anthropic-messages  127.0.0.1:{away}\r\n" in seat.written
        assert " serving " not in seat.written
        assert "canary" not in seat.written


class TestText:
    @pytest.mark.parametrize(
        ("url", "console"),
        [
            ("http://127.0.0.1:8787", "http://127.0.0.1:8787/console/"),
            ("http://0.0.0.0:8787", "http://127.0.0.1:8787/console/"),
            ("http://[::]:8787", "http://[::1]:8787/console/"),
            ("http://192.168.0.7:80", "http://192.168.0.7:80/console/"),
        ],
    )
    def test_the_console_has_an_address_that_a_browser_can_open(
        self, url: str, console: str
    ) -> None:
        assert find_console(url) == console

    def test_a_summary(self, tmp_path: Path) -> None:
        tmp_path.joinpath("holdgate.toml").write_text(
            '[[upstreams]]\nid = "a"\nbase_url = "https://a.example:8443/v1"\n'
            '[[models]]\nname = "default"\nroutes = ["a/large"]\n'
            '[store]\nurl = "sqlite:////var/lib/holdgate.db"\n'
        )
        text = write_summary(load(None, HOME, {}, tmp_path), "http://127.0.0.1:8787")
        assert text.splitlines()[1:-3] == [
            "Holdgate 0.1.0 serves holdgate.toml:",
            "",
            "  upstreams  a  openai-chat  a.example:8443",
            "  models     default",
            "  agents     none",
            "  store      sqlite:////var/lib/holdgate.db",
            "  keys       none; only this machine is served",
        ]

    def test_many_models_are_counted(self, tmp_path: Path) -> None:
        names = json.dumps([f"m{number}" for number in range(30)])
        tmp_path.joinpath("holdgate.toml").write_text(
            f'[[upstreams]]\nid = "a"\nbase_url = "http://a.example/v1"\nmodels = {names}\n'
        )
        text = write_summary(load(None, HOME, {}, tmp_path), "http://127.0.0.1:8787")
        assert "m0, m1, " in text
        assert "m19, 10 more\n" in text

    @pytest.mark.parametrize(
        ("file", "says"),
        [
            (None, "To use your own models, run `holdgate init`, and start again."),
            ("[clock]\n", "add [[upstreams]] to holdgate.toml, and start again."),
        ],
    )
    def test_the_demo_says_how_to_go_on(self, file: str | None, says: str, tmp_path: Path) -> None:
        if file is not None:
            tmp_path.joinpath("holdgate.toml").write_text(file)
        assert says in write_advice(load(None, HOME, {}, tmp_path), "http://127.0.0.1:8787")

    def test_a_demo_with_keys_of_the_environment_names_both(self, tmp_path: Path) -> None:
        config = load(None, {**HOME, "OPENAI_API_KEY": "canary"}, {}, tmp_path)
        text = write_summary(config, "http://127.0.0.1:8787")
        assert "  models     demo, openai/*\n" in text
        assert "serves the settings of its environment:" in text
        assert "canary" not in text
