"""What `holdgate init` finds: keys in the environment, and model servers on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import anyio
import httpx
import msgspec

from gateway.config import UpstreamSection, Url
from gateway.config.choices import PresetName
from gateway.config.presets import PRESETS

LOOPBACK = "127.0.0.1"
SECONDS = 1.0
MOST_BYTES = 1024 * 1024
# Providers by their presets, and the variables in which people have their keys.
KEY_VARIABLES: Mapping[PresetName, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server that people run on their own machine, and its usual port."""

    preset: PresetName
    title: str
    port: int


LOCAL_SERVERS = (
    LocalServer("ollama", "Ollama", 11434),
    LocalServer("vllm", "vLLM", 8000),
    LocalServer("llamacpp", "llama.cpp", 8080),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of the search for one upstream: a sentence, and the upstream if it is there."""

    says: str
    section: UpstreamSection | None = None


class _ListedModel(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    # Ollama without any model says null.
    data: list[_ListedModel] | None


class NotUsable(Exception):
    """The server cannot be an upstream as it is; the text says why."""


def find_keys(environ: Mapping[str, str]) -> list[Finding]:
    """Look for the keys of well-known providers."""
    return [_find_key(preset, name, environ) for preset, name in KEY_VARIABLES.items()]


def _find_key(preset: PresetName, name: str, environ: Mapping[str, str]) -> Finding:
    address = name.replace("_API_KEY", "_BASE_URL")
    if not environ.get(name, "").strip():
        return Finding(f"{name} is not set")
    if environ.get(address):
        # The key belongs to that address, which may even be this gateway's: do not send it away.
        return Finding(f"{name} is for another address, since {address} is set")
    return Finding(f"{name} is set", _fill_section(preset, api_key_env=name))


def _fill_section(preset: PresetName, **keys: Any) -> UpstreamSection:
    """Return an upstream with the name of its preset, and what the preset fills in."""
    return UpstreamSection(**{**PRESETS[preset].values, "id": preset, "preset": preset, **keys})


async def find_servers(
    servers: Sequence[LocalServer] = LOCAL_SERVERS, host: str = LOOPBACK, seconds: float = SECONDS
) -> list[Finding]:
    """Ask all local servers at once for their models; who is slow is not there."""
    found: dict[LocalServer, Finding] = {}

    async def ask(server: LocalServer) -> None:
        found[server] = await _find_server(server, host, seconds)

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(ask, server)
    return [found[server] for server in servers]


async def _find_server(server: LocalServer, host: str, seconds: float) -> Finding:
    where = f"{host}:{server.port} ({server.title}'s port)"
    base_url = Url(f"http://{host}:{server.port}/v1")
    try:
        with anyio.fail_after(seconds):
            models = await _list_models(base_url)
    except NotUsable as unusable:
        return Finding(f"{where} {unusable}")
    except (httpx.HTTPError, TimeoutError):
        return Finding(f"{where} does not answer")
    return Finding(
        f"{where} answers",
        _fill_section(server.preset, base_url=base_url, models=models or ("*",)),
    )


async def _list_models(base_url: str) -> tuple[str, ...]:
    """Return the names that a server lists, or raise `NotUsable`."""
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("GET", f"{base_url}/models") as answer,
    ):
        if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise NotUsable("wants a key: add it by hand, with api_key_env")
        body = bytearray()
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                break
    try:
        listed = msgspec.json.decode(body, type=_ModelList).data or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NotUsable("lists no models at /v1/models") from None
    return tuple(_keep_readable(model.id for model in listed))


def _keep_readable(names: Iterator[str]) -> Iterator[str]:
    """Yield names that can be typed, each once."""
    yield from dict.fromkeys(name for name in names if name and name.isprintable())
