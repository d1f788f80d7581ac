"""`holdgate init`: what is found becomes a file that works, and no secret is in it."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import pytest

from gateway.cli.discovery import (
    KEY_VARIABLES,
    LOCAL_SERVERS,
    Finding,
    LocalServer,
    find_keys,
    find_servers,
)
from gateway.cli.init import run_init, write_config
from gateway.config import UpstreamSection, Url, load
from gateway.config.presets import PRESETS
from tests.docs.running import free_port
from tests.run import as_process
from tests.test_command_line import NO_NTP, holdgate, serving

SECRETS = dict.fromkeys(KEY_VARIABLES.values(), "canary-key")
DEMO_UPSTREAM = ("gateway", "demo-upstream", "--port", "0")
HOME = {"HOME": "/nowhere"}

Say = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def listening(say: Say) -> Iterator[int]:
    """Answer every GET on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            say(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def answer(body: bytes, status: int = 200) -> Say:
    """Answer with one document."""

    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return say


def list_models(*names: str) -> Say:
    return answer(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def greet_like_ssh(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-x\r\n")


def find(port: int, seconds: float = 20) -> Finding:
    """Look for one local server."""
    server = LocalServer("ollama", "Ollama", port)
    (finding,) = anyio.run(partial(find_servers, [server], seconds=seconds))
    return finding


def init(*servers: LocalServer, **options: Any) -> int:
    arguments = Namespace(**{"config": None, "force": False, **options})
    return run_init(arguments, partial(find_servers, servers))


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty directory, without keys."""
    for name in SECRETS:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.replace("API_KEY", "BASE_URL"), raising=False)
    monkeypatch.chdir(tmp_path)


class TestServers:
    def test_the_usual_ports_are_asked(self) -> None:
        assert {server.title: server.port for server in LOCAL_SERVERS} == {
            "Ollama": 11434,
            "vLLM": 8000,
            "llama.cpp": 8080,
        }

    def test_one_that_lists_its_models_is_found(self) -> None:
        asked = []

        def say(handler: BaseHTTPRequestHandler) -> None:
            asked.append(handler.path)
            list_models("qwen3:8b", "phi4", "qwen3:8b", "", "a\x1b[2Jb")(handler)

        with listening(say) as port:
            finding = find(port)
        assert asked == ["/v1/models"]
        assert finding == Finding(
            f"127.0.0.1:{port} (Ollama's port) answers",
            UpstreamSection(
                "ollama", Url(f"http://127.0.0.1:{port}/v1"), "ollama", models=("qwen3:8b", "phi4")
            ),
        )

    @pytest.mark.parametrize("body", [b'{"object":"list","data":null}', b'{"data":[]}'])
    def test_one_without_models_serves_any(self, body: bytes) -> None:
        with listening(answer(body)) as port:
            section = find(port).section
        assert section is not None
        assert section.models == ("*",)

    @pytest.mark.parametrize(
        ("say", "says"),
        [
            (answer(b"{}", 401), "wants a key: add it by hand"),
            (answer(b"{}", 403), "wants a key: add it by hand"),
            (answer(b"{}", 404), "lists no models"),
            (answer(b"<html>hello</html>"), "lists no models"),
            (answer(b'{"data":[{"id":7}]}'), "lists no models"),
            (answer(b'{"data":[{"id":"\xff"}]}'), "lists no models"),
            (answer(b" " * (2 << 20)), "lists no models"),
        ],
    )
    def test_others_are_not_used_and_it_is_said_why(self, say: Say, says: str) -> None:
        with listening(say) as port:
            finding = find(port)
        assert finding.section is None
        assert f"127.0.0.1:{port}" in finding.says
        assert says in finding.says

    def test_where_nobody_listens(self) -> None:
        assert find(free_port()).says.endswith("does not answer")

    def test_what_does_not_speak_http(self) -> None:
        with listening(greet_like_ssh) as port:
            assert find(port).says.endswith("does not answer")

    def test_silent_ones_cost_the_limit_once(self) -> None:
        over = Event()

        def say(handler: BaseHTTPRequestHandler) -> None:
            over.wait(20)

        with listening(say) as port:
            servers = [LocalServer("vllm", f"S{n}", port) for n in range(4)]
            begun = time.monotonic()
            findings = anyio.run(partial(find_servers, servers, seconds=0.5))
            took = time.monotonic() - begun
            over.set()
        assert [finding.section for finding in findings] == [None] * 4
        assert 0.5 <= took < 2


class TestKeys:
    def test_each_is_found_by_its_name(self) -> None:
        sections = [finding.section for finding in find_keys(SECRETS)]
        found = [(one.id, one.preset, one.api_key_env) for one in sections if one]
        assert found == [(preset, preset, name) for preset, name in KEY_VARIABLES.items()]

    @pytest.mark.parametrize("value", ["", "  "])
    def test_an_empty_one_is_none(self, value: str) -> None:
        findings = find_keys(dict.fromkeys(SECRETS, value))
        assert [(one.section, one.says) for one in findings] == [
            (None, f"{name} is not set") for name in SECRETS
        ]

    def test_the_key_of_another_address_is_not_sent_away(self) -> None:
        environ = {**SECRETS, "OPENAI_BASE_URL": "http://127.0.0.1:8787/v1"}
        openai, anthropic, _ = find_keys(environ)
        assert openai.section is None
        assert "since OPENAI_BASE_URL is set" in openai.says
        assert anthropic.section is not None


class TestFile:
    def test_keys_become_upstreams_by_their_names_alone(self, tmp_path: Path) -> None:
        result = holdgate("init", cwd=tmp_path, **SECRETS)
        assert result.returncode == 0, result.stderr
        text = tmp_path.joinpath("holdgate.toml").read_text()
        assert "canary" not in text + result.stdout + result.stderr
        config = load(None, {**HOME, **SECRETS}, {}, tmp_path)
        assert [section.id for section in config.upstreams][:3] == [
            "openai",
            "anthropic",
            "openrouter",
        ]
        for name in SECRETS:
            assert f"{name} is set" in result.stdout
        assert "holdgate check" in result.stdout
        assert "holdgate serve" in result.stdout
        checked = holdgate("check", cwd=tmp_path, **SECRETS)
        assert checked.returncode == 0, checked.stderr

    def test_a_local_server_answers_through_the_gateway(self, tmp_path: Path) -> None:
        with as_process(tmp_path, NO_NTP, command=DEMO_UPSTREAM) as demo:
            assert init(LocalServer("ollama", "Ollama", demo.port)) == 0
            with serving(tmp_path) as gate:
                for model in ("demo", "ollama/demo"):
                    assert ask(gate.url, model) == "ollama"

    def test_without_anything_the_demo_answers(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert init(LocalServer("vllm", "vLLM", free_port())) == 0
        assert "the demo model answers" in capsys.readouterr().out
        assert load(None, HOME, {}, tmp_path).demo
        with serving(tmp_path) as gate:
            assert ask(gate.url, "demo") == "demo"

    def test_what_stands_in_comments_is_right_too(self, tmp_path: Path) -> None:
        for findings in ([], find_keys(SECRETS)):
            text = write_config(findings).replace("…", "0" * 64)
            file = tmp_path / "holdgate.toml"
            file.write_text(re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE))
            config = load(file, {**HOME, **SECRETS, "MY_KEY": "k"})
            assert [model.name for model in config.models] == ["default"]
            assert len(config.models[0].routes) == 2
            assert [key.owner for key in config.keys] == ["alice"]
            assert not config.clock.enabled

    def test_names_that_need_quotes(self, tmp_path: Path) -> None:
        with listening(list_models('a"b\\c', "模型", "org/model", "*")) as port:
            assert init(LocalServer("vllm", "vLLM", port)) == 0
        (section,) = load(None, HOME, {}, tmp_path).upstreams
        assert section.models == ('a"b\\c', "模型", "org/model", "*")
        assert section.profile == "vllm"

    def test_reminders_come_on_time(self, tmp_path: Path) -> None:
        tmp_path.joinpath("holdgate.toml").write_text(write_config(find_keys(SECRETS)))
        assert load(None, {**HOME, **SECRETS}, {}, tmp_path).clock.due_window_ms == 0

    def test_a_preset_says_all_but_the_key(self) -> None:
        """The file is short: what a preset fills in is not written."""
        text = write_config(find_keys(SECRETS))
        for name, variable in KEY_VARIABLES.items():
            keys = f'id = "{name}"\npreset = "{name}"\napi_key_env = "{variable}"\n'
            assert f"[[upstreams]]\n{keys}\n" in text
        assert "base_url =" not in text

    @pytest.mark.parametrize("server", LOCAL_SERVERS, ids=lambda server: str(server.preset))
    def test_the_usual_port_is_that_of_the_preset(self, server: LocalServer) -> None:
        assert PRESETS[server.preset].values["base_url"] == f"http://127.0.0.1:{server.port}/v1"


class TestCommand:
    def test_a_file_is_replaced_only_by_force(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "my gate.toml"
        file.write_text("mine")
        assert init(config=file) == 1
        assert file.read_text() == "mine"
        assert f"{file} exists already; --force replaces it." in capsys.readouterr().err
        assert init(config=file, force=True) == 0
        assert "[server]" in file.read_text()
        assert f"holdgate serve --config '{file}'" in capsys.readouterr().out

    def test_a_link_that_leads_nowhere_counts_as_a_file(self, tmp_path: Path) -> None:
        tmp_path.joinpath("holdgate.toml").symlink_to(tmp_path / "gone")
        assert init() == 1
        assert not tmp_path.joinpath("gone").exists()

    def test_a_file_that_appears_meanwhile_stays(self, tmp_path: Path) -> None:
        file = tmp_path / "holdgate.toml"

        async def find_nothing() -> list[Finding]:
            file.write_text("mine")
            return []

        assert run_init(Namespace(config=None, force=False), find_nothing) == 1
        assert file.read_text() == "mine"

    def test_where_nothing_can_be_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "no" / "holdgate.toml"
        assert init(config=file) == 1
        assert f"{file} cannot be written: No such file or directory." in capsys.readouterr().err

    def test_what_else_is_wrong_here_is_said(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("HOLDGATE_SERVER__PORT", "no-port")
        assert init() == 1
        assert "HOLDGATE_SERVER__PORT: expected an integer" in capsys.readouterr().err

    def test_of_many_models_a_few_are_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        with listening(list_models(*"abcdef")) as port:
            init(LocalServer("ollama", "Ollama", port))
        assert "ask for a, b, c, 3 more\n" in capsys.readouterr().out


def ask(url: str, model: str) -> str:
    """Ask a gateway for an answer; return which upstream gave it."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"]
        return str(answer.headers["x-holdgate-upstream"])
