"""The documented way to switch traces on, as an operator does it."""

from __future__ import annotations

import json
import re
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.app.tracing import name_provider
from gateway.config import load
from tests.run import ROOT, as_process

from .spans import CLIENTS_SPAN, PARENT, TRACE

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
CONSOLE = {
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    # No test asks a time server of the world.
    "ROUTECODEX_CLOCK_NTP": "off",
}
ASK = {"model": "demo", "messages": [{"role": "user", "content": "canary"}], "stream": True}


def read_spans(output: str) -> list[dict[str, Any]]:
    """Read the objects that the console exporter wrote, one after the other."""
    decoder, found = json.JSONDecoder(), []
    while output := output.lstrip():
        span, end = decoder.raw_decode(output)
        found.append(span)
        output = output[end:]
    return found


def test_the_sdk_that_the_operator_brings_exports_the_spans(tmp_path: Path) -> None:
    with as_process(tmp_path, CONSOLE, under=(INSTRUMENT,)) as process:
        headers = dict([PARENT.split(": ")])
        where = f"{process.url}/v1/chat/completions"
        answer = httpx.post(where, json=ASK, headers=headers, trust_env=False)
        assert answer.text.endswith("data: [DONE]\n\n")
        process.signal(signal.SIGTERM)
        output = process.read_output()
    turn, exchange = read_spans(output[output.index("{\n") :])
    assert [turn["name"], exchange["name"]] == ["chat demo", "POST /v1/chat/completions"]
    assert {span["context"]["trace_id"] for span in (turn, exchange)} == {f"0x{TRACE}"}
    assert exchange["parent_id"] == f"0x{CLIENTS_SPAN}"
    assert turn["parent_id"] == exchange["context"]["span_id"]
    assert "canary" not in output
    assert " INFO tracing" in process.log.read_text()


def test_the_documentation_names_this_way() -> None:
    text = (ROOT / "docs/observability.md").read_text()
    assert "opentelemetry-instrument holdgate serve\n" in text
    settings = [f"{name}={value}" for name, value in CONSOLE.items() if name.startswith("OTEL")]
    assert [setting for setting in settings if setting not in text] == []


def test_the_extra_brings_the_api_alone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (needed,) = extras["optional-dependencies"]["otel"]
    assert re.split("[<>=]", needed)[0] == "opentelemetry-api"


@pytest.mark.parametrize(
    "keys, provider",
    [
        ('preset = "openai"', "openai"),
        ('preset = "mistral"', "mistral_ai"),
        ('preset = "azure"\nbase_url = "https://x.openai.azure.com/openai/v1"', "azure.ai.openai"),
        ('base_url = "https://api.anthropic.com/v1"', "anthropic"),
        ('base_url = "https://generativelanguage.googleapis.com/v1beta/openai"', "gcp.gemini"),
        ('base_url = "http://127.0.0.1:11434/v1"', "mine"),
        ('base_url = "https://models.example.com/v1"', "mine"),
    ],
)
def test_a_provider_is_called_as_the_conventions_do(
    tmp_path: Path, keys: str, provider: str
) -> None:
    file = tmp_path / "holdgate.toml"
    file.write_text(f'[[upstreams]]\nid = "mine"\nmodels = ["m"]\n{keys}\n')
    config = load(file, {}, {}, tmp_path)
    assert name_provider(config.upstreams[0]) == provider
