"""The command line, as a user meets it: real processes, real terminals' input and output."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.run import SERVE, GatewayProcess, as_process, environment

# No test asks a time server of the world.
NO_NTP = {"ROUTECODEX_CLOCK_NTP": "off"}
FIVE_MISTAKES = """
[server]
prot = 8787
[clock]
hold_max_sm = 1
time_tag = "alwas"
[[upstreams]]
id = "openai"
base_url = "https://user:canary-password@models.example/v1"
api_key = "canary-secret"
[[models]]
name = "default"
routes = ["opnai/gpt-5"]
[limits]
body_byte = 3
"""


def holdgate(
    *arguments: str, cwd: Path, text: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=cwd,
        env=environment(cwd, {**NO_NTP, **environ}),
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )


def serving(cwd: Path, *arguments: str, **environ: str) -> GatewayProcess:
    return as_process(cwd, {**NO_NTP, **environ}, command=(*SERVE, *arguments))


def test_five_mistakes_are_told_at_once_each_with_the_nearest_name(tmp_path: Path) -> None:
    tmp_path.joinpath("holdgate.toml").write_text(FIVE_MISTAKES)
    result = holdgate("check", cwd=tmp_path)
    assert result.returncode == 1
    told = result.stderr.splitlines()
    for wrong, right in (
        ("prot", "port"),
        ("hold_max_sm", "hold_max_ms"),
        ("alwas", "always"),
        ("opnai", "openai"),
        ("body_byte", "body_bytes"),
    ):
        assert [line for line in told if wrong in line and right in line], wrong
    assert "canary" not in result.stdout + result.stderr


def test_a_right_configuration_is_printed_without_its_secrets(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text(
        '[[upstreams]]\nid = "up"\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "UP_KEY"\n'
        '[[keys]]\nowner = "alice"\nkey = "canary-literal"\n'
    )
    result = holdgate("check", "--config", str(config), cwd=tmp_path, UP_KEY="canary-environment")
    assert result.returncode == 0, result.stderr
    assert "alice" in result.stdout
    assert "canary" not in result.stdout + result.stderr


def test_without_configuration_the_demo_answers_and_says_what_to_try(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-format", "json") as gate:
        body = {"model": "demo", "messages": [{"role": "user", "content": "canary words"}]}
        request = urllib.request.Request(
            f"{gate.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["choices"][0]["message"]["content"]
        gate.signal(signal.SIGINT)
        out = gate.read_output()
        assert gate.wait(20) == 0
    err = gate.log.read_text()
    assert f"curl -N {gate.url}/v1/chat/completions" in out
    assert f"curl -N {gate.url}/api/sessions/demo/events" in out
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["event"] for line in lines] == ["agent_registered", "exchange", "draining"]
    assert "canary" not in err


def test_what_to_try_does_not_promise_that_no_key_is_needed(tmp_path: Path) -> None:
    keys = '[{"owner":"alice","key":"canary-key"}]'
    for environ, promised in (({}, True), ({"HOLDGATE_KEYS": keys}, False)):
        with serving(tmp_path, **environ) as gate:
            gate.signal(signal.SIGTERM)
            out = gate.read_output()
        assert ("no key is needed" in out) is promised
        assert "canary" not in out


@pytest.mark.parametrize("said", ["EST5EDT,M3.2.0,M11.1.0", "Nowhere/City"])
def test_it_starts_whatever_tz_says(said: str, tmp_path: Path) -> None:
    with serving(tmp_path, TZ=said) as gate:
        with urllib.request.urlopen(f"{gate.url}/api/clock", timeout=20) as answer:
            zone = json.load(answer)["timezone"]
        gate.signal(signal.SIGTERM)
        gate.wait(20)
    err = gate.log.read_text()
    assert zone == ("UTC" if said == "Nowhere/City" else "America/New_York")
    assert err.count("TZ='Nowhere/City' is not known") == (said == "Nowhere/City")


def test_a_port_in_use_is_said_plainly(tmp_path: Path) -> None:
    with serving(tmp_path) as gate:
        result = holdgate("serve", "--port", str(gate.port), cwd=tmp_path)
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{gate.port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_chat_streams_and_survives_a_refusal(tmp_path: Path) -> None:
    with serving(tmp_path) as gate:
        said = (
            'demo: say="Nice to\\u2028meet you."\n\ndemo: status=500\n'
            'demo: tokens=9 drop_after=3\ndemo: say="Still here."\n'
        )
        result = holdgate("chat", "--url", gate.url, cwd=tmp_path, text=said)
    assert "Nice to\u2028meet you." in result.stdout
    assert "Still here." in result.stdout
    assert result.returncode == 0
    assert result.stderr.count("holdgate:") == 2
    assert "Traceback" not in result.stderr


def test_chat_without_a_gateway_says_so(tmp_path: Path) -> None:
    result = holdgate("chat", "--url", "http://127.0.0.1:9", cwd=tmp_path, text="hi\n")
    assert result.returncode == 1
    assert "no gateway answers at http://127.0.0.1:9" in result.stderr


def test_check_takes_what_serve_takes(tmp_path: Path) -> None:
    result = holdgate("check", "--port", "9000", "--log-format", "json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "port = 9000" in result.stdout
    assert 'log_format = "json"' in result.stdout


def test_who_reads_may_leave_before_the_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gateway", "check"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path, NO_NTP),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writer)
    assert result.stderr == b""
    assert result.returncode == 128 + signal.SIGPIPE


def test_serve_goes_on_when_nobody_reads_what_it_says(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve", "--port", str(port)],
        cwd=tmp_path,
        env=environment(tmp_path, NO_NTP),
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    try:
        while process.poll() is None and not is_ready(f"http://127.0.0.1:{port}"):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, told


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["serve", "--help"]])
def test_help(arguments: list[str], tmp_path: Path) -> None:
    result = holdgate(*arguments, cwd=tmp_path)
    assert result.returncode == 0
    assert "holdgate" in result.stdout


def test_the_demo_upstream_alone(tmp_path: Path) -> None:
    with as_process(tmp_path, NO_NTP, command=("gateway", "demo-upstream", "--port", "0")) as demo:
        assert demo.url.startswith("http://127.0.0.1:")
        demo.signal(signal.SIGTERM)
        assert demo.wait(20) == 0
