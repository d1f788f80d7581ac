"""Every preset against a server that answers like its provider: a tool loop, and a text.

Of the preset only the host is replaced. The server insists on method, path, parameters and key.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.config import load
from gateway.config.presets import PRESETS
from tests.docs.blocks import BLOCKS
from tests.gateway.client import Answer as Sent
from tests.gateway.wire import request
from tests.pairs.gate import CHAT, JSON, MESSAGES, RESPONSES
from tests.pairs.neutral import Ask, Call, Result, Tongue, Turn, events
from tests.run import Running, environment, in_process
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, fake_upstream, sized

from .shapes import ARGUMENTS, MODEL, SHAPES, TEXT, Shape

KEY = "sk-provider"
BEARER = ("authorization", f"Bearer {KEY}")
# What each provider wants: the path and its parameters, and the header with the key.
WANTED = {
    "openai": ("/v1/chat/completions", BEARER),
    "anthropic": ("/v1/messages", ("x-api-key", KEY)),
    "azure": ("/openai/v1/chat/completions", ("api-key", KEY)),
    "azure-deployments": (
        "/openai/deployments/some%2Fmodel%3A1/chat/completions?api-version=2024-10-21",
        ("api-key", KEY),
    ),
    "openrouter": ("/api/v1/chat/completions", BEARER),
    "gemini": ("/v1beta/openai/chat/completions", BEARER),
    "bedrock": ("/openai/v1/chat/completions", BEARER),
    "deepseek": ("/v1/chat/completions", BEARER),
    "glm": ("/api/paas/v4/chat/completions", BEARER),
    "kimi": ("/v1/chat/completions", BEARER),
    "qwen": ("/compatible-mode/v1/chat/completions", BEARER),
    "mistral": ("/v1/chat/completions", BEARER),
    "groq": ("/openai/v1/chat/completions", BEARER),
    "ollama": ("/v1/chat/completions", BEARER),
    "vllm": ("/v1/chat/completions", BEARER),
    "llamacpp": ("/v1/chat/completions", BEARER),
}
# What the operator gives where the preset cannot know it.
GIVEN: dict[str, dict[str, Any]] = {
    "azure": {"base_url": "https://name.openai.azure.com/openai/v1"},
    "azure-deployments": {
        "base_url": "https://name.openai.azure.com/openai",
        "query": {"api-version": "2024-10-21"},
    },
    "bedrock": {"base_url": "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"},
}
LOOK = Ask(tools=("look",))
CREDENTIALS = ("authorization", "x-api-key", "api-key")
presets = pytest.mark.parametrize("name", PRESETS)


def after_call(call: Call) -> Ask:
    """Write the question again, with the call and what the tool returned."""
    result = Turn("user", results=(Result(call.id, "calm"),))
    return Ask((*LOOK.turns, Turn("assistant", calls=(call,)), result), tools=LOOK.tools)


def provider(name: str, shape: Shape) -> Any:
    """Answer as the provider does, and refuse what it would refuse."""
    path, credential = WANTED[name]

    async def story(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            assert asked.line.decode() == f"POST {path} HTTP/1.1"
            headers = {key.decode(): value.decode() for key, value in asked.headers.items()}
            sent = {key: headers[key] for key in CREDENTIALS if key in headers}
            assert sent == dict([credential])
            assert headers["content-type"] == "application/json"
            body = json.loads(asked.body)
            assert body["model"] == MODEL
            assert body["stream"] is True
            has_result = shape.call_id in json.dumps(body["messages"])
            frames = shape.text if has_result else shape.call
            await peer.send(CHUNKED, *map(chunk, frames), LAST)

    return story


@asynccontextmanager
async def connected(name: str, story: Story | None = None) -> AsyncIterator[Running]:
    async with fake_upstream(story or provider(name, SHAPES[name])) as fake:
        given = {"id": "p", "preset": name, "api_key": KEY, **GIVEN.get(name, {})}
        known = given.get("base_url") or PRESETS[name].values["base_url"]
        given["base_url"] = f"http://127.0.0.1:{fake.port}{urlsplit(known).path}"
        tables = {"upstreams": [given], "models": [{"name": "m", "routes": [f"p/{MODEL}"]}]}
        async with in_process(tables=tables) as gate:
            gate.fakes.append(fake)
            yield gate


async def ask(gate: Running, client: Tongue, ask: Ask) -> Sent:
    body = client.ask(ask, True)
    sent = await gate.fetch(request("POST", client.PATH, JSON, body=body))
    assert sent.status == 200, bytes(sent.body)
    return sent


@pytest.mark.parametrize("client", [RESPONSES, MESSAGES], ids=["responses", "messages"])
@presets
async def test_a_tool_loop_of_another_dialect(name: str, client: Tongue) -> None:
    shape = SHAPES[name]
    async with connected(name) as gate:
        called = client.read_stream(bytes((await ask(gate, client, LOOK)).body))
        (call,) = called.calls
        assert (call.name, json.loads(call.arguments)) == ("look", json.loads(ARGUMENTS))
        assert called.stop == "tools"
        assert called.thought == shape.thought
        told = client.read_stream(bytes((await ask(gate, client, after_call(call))).body))
        assert told.text == TEXT
        assert told.tokens is not None
        assert (told.tokens.input, told.tokens.output) == (20, 7)


# Where the end comes in one chunk with what it ends, the gateway makes two of it.
SPLIT = ("gemini", "mistral")


def calls_in(body: bytes) -> list[Any]:
    """Find all pieces of calls in a chat stream, with all their members."""
    choices = [choice for _, told in events(body) if told != "[DONE]" for choice in told["choices"]]
    deltas = [choice["delta"] for choice in choices]
    return [call for delta in deltas for call in delta.get("tool_calls", ())]


@presets
async def test_what_it_says_passes_unchanged_in_its_own_dialect(name: str) -> None:
    shape, client = SHAPES[name], MESSAGES if name == "anthropic" else CHAT
    async with connected(name) as gate:
        called = await ask(gate, client, LOOK)
        if name in SPLIT:
            assert calls_in(bytes(called.body)) == calls_in(b"".join(shape.call))
        else:
            assert called.body == b"".join(shape.call)
        call = Call(shape.call_id, "look", ARGUMENTS)
        told = await ask(gate, client, after_call(call))
        if name != "gemini":
            assert told.body == b"".join(shape.text)
        assert TEXT.encode() in told.body or b"is calm." in told.body


@presets
async def test_embeddings_are_asked_for_beside_it(name: str) -> None:
    path, credential = WANTED[name]
    wanted = path.replace("/chat/completions", "/embeddings")
    async with connected(name, answering(sized(b'{"data": []}', JSON))) as gate:
        body = json.dumps({"model": "m", "input": "x"}).encode()
        answer = await gate.fetch(request("POST", "/v1/embeddings", JSON, body=body))
        asked = gate.fakes[0].requests
    if name == "anthropic":
        assert (answer.status, answer.error["code"], asked) == (400, "no_route", [])
        return
    assert answer.json == {"data": []}
    assert asked[0].line.decode() == f"POST {wanted} HTTP/1.1"
    assert asked[0].headers[credential[0].encode()].decode() == credential[1]
    assert json.loads(asked[0].body)["model"] == MODEL


@presets
def test_explicit_keys_win(name: str, tmp_path: Path) -> None:
    mine = {"base_url": "https://a.example/x", "dialect": "openai-responses", "path": "/y"}
    mine |= {"auth": "bearer", "profile": "plain"}
    given = [{"id": "p", "preset": name, **GIVEN.get(name, {}), **mine}]
    (found,) = load(None, {"HOLDGATE_UPSTREAMS": json.dumps(given)}, cwd=tmp_path).upstreams
    assert {key: getattr(found, key) for key in mine} == mine


PAGE = [block for block in BLOCKS if block.page == "docs/providers.md"]
EXAMPLES = [block for block in PAGE if 'auth = "client"' not in block.code]
named = re.compile(r'preset = "(.*)"').findall


def test_every_preset_has_an_example() -> None:
    assert [name for block in EXAMPLES for name in named(block.code)] == list(PRESETS)


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: str(*named(block.code)))
def test_the_example_passes_the_check(block: Any, tmp_path: Path) -> None:
    (tmp_path / "holdgate.toml").write_text(block.code)
    secrets = dict.fromkeys(re.findall(r'_env = "(\w+)"', block.code), "secret")
    done = subprocess.run(
        (sys.executable, "-m", "gateway", "check"),
        cwd=tmp_path,
        env=environment(tmp_path, secrets),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    for key, value in PRESETS[named(block.code)[0]].values.items():
        assert f'{key} = "{value}"' in done.stdout
