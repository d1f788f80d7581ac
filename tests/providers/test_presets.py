"""Every preset against a server that answers like its provider: tool loops, and a text.

Of the preset only the host is replaced. The server insists on method, path, parameters and key, and
refuses what the provider is known to refuse. Both its answers (`shapes.py`) and its refusals are
written from memory of what providers document.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.clock import ManualClock
from gateway.config import load
from gateway.config.presets import PRESETS
from tests.clock.words import NOW
from tests.docs.blocks import BLOCKS
from tests.gateway.client import Answer as Sent
from tests.gateway.wire import request
from tests.pairs.gate import CHAT, JSON, MESSAGES, RESPONSES, each_tongue
from tests.pairs.neutral import Ask, Call, Result, Tongue, Turn, events
from tests.run import Running, environment, in_process
from tests.wire.fake import CHUNKED, LAST, Peer, Story, answering, chunk, fake_upstream, sized

from .gemini import signature_in
from .shapes import ARGUMENTS, CLOCK_SIGNATURE, MODEL, SHAPES, SIGNATURE, TEXT, Json, Shape

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
VERSIONS = {"anthropic": "2023-06-01"}
CREDENTIALS = ("authorization", "x-api-key", "api-key")
presets = pytest.mark.parametrize("name", PRESETS)


def after_call(call: Call) -> Ask:
    """Write the question again, with the call and what the tool returned."""
    result = Turn("user", results=(Result(call.id, "calm"),))
    return Ask((*LOOK.turns, Turn("assistant", calls=(call,)), result), tools=LOOK.tools)


def find_calls(body: Json) -> tuple[list[Json], list[str]]:
    """Return the calls of a history, and the ids that its results name."""
    messages = body["messages"]
    blocks = [block for m in messages if isinstance(m["content"], list) for block in m["content"]]
    calls = [call for m in messages for call in m.get("tool_calls") or ()]
    calls += [block for block in blocks if block["type"] == "tool_use"]
    results = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    results += [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    return calls, results


def turns_with_calls(body: Json) -> list[Json]:
    return [m for m in body["messages"] if m.get("tool_calls")]


def refuse_unsigned(body: Json) -> bool:
    """Gemini wants its signatures back."""
    signed = {"function-call-1": SIGNATURE, "function-call-8": CLOCK_SIGNATURE}
    return any(signature_in(c) != signed[c["id"]] for c in find_calls(body)[0])


def refuse_thoughtless(body: Json) -> bool:
    """DeepSeek wants reasoning in every turn that calls tools."""
    return not all(turn.get("reasoning_content") for turn in turns_with_calls(body))


def refuse_null(body: Json) -> bool:
    """GLM takes texts only, and no `strict`."""
    return '"strict"' in json.dumps(body) or not all(
        isinstance(m["content"], str) for m in body["messages"]
    )


def refuse_unknown(body: Json) -> bool:
    """Mistral refuses members that it does not know, and ids of another form."""
    odd = {"metadata", "user", "stream_options", "reasoning_effort"}.intersection(body)
    return bool(odd) or not all(re.fullmatch(r"\w{9}", c["id"]) for c in find_calls(body)[0])


def refuse_old_limit(body: Json) -> bool:
    """Newer models of OpenAI refuse `max_tokens`."""
    return "max_tokens" in body


REFUSALS: dict[str, Callable[[Json], bool]] = {
    "openai": refuse_old_limit,
    "azure": refuse_old_limit,
    "azure-deployments": refuse_old_limit,
    "gemini": refuse_unsigned,
    "deepseek": refuse_thoughtless,
    "glm": refuse_null,
    "mistral": refuse_unknown,
}
# What a client of the provider's own dialect wrote is its own; of these the profile adds what lacks.
OWN_REFUSALS = {"gemini"}


def choose_frames(shape: Shape, body: Json, first: list[bytes]) -> list[bytes]:
    """Answer first so, then call `look`, and say a text when that has returned."""
    calls, results = find_calls(body)
    assert sorted(call["id"] for call in calls) == sorted(results)
    assert all(results)
    names = [call["name"] if "name" in call else call["function"]["name"] for call in calls]
    if "look" in names:
        return shape.text
    return shape.call if names else first


def provider(name: str, is_own: bool, calls_clock: bool) -> Any:
    """Answer as the provider does, and refuse what it would refuse."""
    path, credential = WANTED[name]
    shape, refuse = SHAPES[name], REFUSALS.get(name)
    first = shape.clock if calls_clock else shape.call

    async def story(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            assert asked.line.decode() == f"POST {path} HTTP/1.1"
            headers = {key.decode(): value.decode() for key, value in asked.headers.items()}
            sent = {key: headers[key] for key in CREDENTIALS if key in headers}
            assert sent == dict([credential])
            assert headers["content-type"] == "application/json"
            assert headers.get("anthropic-version") == VERSIONS.get(name)
            body = json.loads(asked.body)
            assert body["model"] == MODEL
            assert body["stream"] is True
            if refuse is not None and (name in OWN_REFUSALS or not is_own) and refuse(body):
                error = json.dumps({"error": {"message": refuse.__doc__}}).encode()
                await peer.send(sized(error, JSON, status="400 No"))
            else:
                frames = choose_frames(shape, body, first)
                await peer.send(CHUNKED, *map(chunk, frames), LAST)

    return story


def speaks_own(name: str, client: Tongue) -> bool:
    """Tell whether a client speaks as the provider does."""
    return client is (MESSAGES if name == "anthropic" else CHAT)


@asynccontextmanager
async def connected(
    name: str, client: Tongue, clock: ManualClock | None = None, story: Story | None = None
) -> AsyncIterator[Running]:
    story = story or provider(name, speaks_own(name, client), clock is not None)
    async with fake_upstream(story) as fake:
        given = {"id": "p", "preset": name, "api_key": KEY, **GIVEN.get(name, {})}
        known = given.get("base_url") or PRESETS[name].values["base_url"]
        given["base_url"] = f"http://127.0.0.1:{fake.port}{urlsplit(known).path}"
        tables = {"upstreams": [given], "models": [{"name": "m", "routes": [f"p/{MODEL}"]}]}
        async with in_process(tables=tables, clock=clock) as gate:
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
    async with connected(name, client) as gate:
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
    async with connected(name, client) as gate:
        called = await ask(gate, client, LOOK)
        if name in SPLIT:
            assert calls_in(bytes(called.body)) == calls_in(b"".join(shape.call))
        else:
            assert called.body == b"".join(shape.call)
        call = Call(shape.call_id or "made-up", "look", ARGUMENTS)
        told = await ask(gate, client, after_call(call))
        if name != "gemini":
            assert told.body == b"".join(shape.text)
        assert TEXT.encode() in told.body or b"is calm." in told.body


def read_calls(client: Tongue, body: bytes) -> list[Call]:
    """Find the calls that a client is shown in a stream of several turns."""
    if client is MESSAGES:
        return list(client.read_stream(body).calls)
    if client is RESPONSES:
        output = events(body)[-1][1]["response"]["output"]
        items = [item for item in output if item["type"] == "function_call"]
        return [Call(item["call_id"], item["name"], item["arguments"]) for item in items]
    pieces = calls_in(body)
    assert {piece["index"] for piece in pieces} == {0}
    functions = [piece["function"] for piece in pieces]
    arguments = "".join(function.get("arguments") or "" for function in functions)
    (ident,) = {piece["id"] for piece in pieces if piece.get("id")}
    return [Call(ident, functions[0]["name"], arguments)]


@each_tongue
@presets
async def test_a_call_of_the_clock_comes_before_one_of_the_client(
    name: str, tongue: Tongue
) -> None:
    """The gateway's own tool loop and the client's, in one conversation."""
    async with connected(name, tongue, ManualClock(NOW)) as gate:
        called = bytes((await ask(gate, tongue, LOOK)).body)
        assert b"clock" not in called
        (call,) = read_calls(tongue, called)
        assert (call.name, json.loads(call.arguments)) == ("look", json.loads(ARGUMENTS))
        told = await ask(gate, tongue, after_call(call))
        assert TEXT.encode() in told.body or b"is calm." in told.body
        await gate.quiet()
        (first, second) = gate.exchanges
        assert (first["turns"], second["turns"]) == (2, 1)
        asked = [find_calls(json.loads(one.body))[0] for one in gate.requests]
        assert list(map(len, asked)) == [0, 1, 1]


@presets
async def test_embeddings_are_asked_for_beside_it(name: str) -> None:
    path, credential = WANTED[name]
    wanted = path.replace("/chat/completions", "/embeddings")
    story = answering(sized(b'{"data": []}', JSON))
    async with connected(name, CHAT, story=story) as gate:
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
