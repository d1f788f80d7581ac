"""A gateway process with a configuration file that tests change, and what its log says of that."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.client import Answer, Client
from tests.gateway.wire import ask_of, chat
from tests.run import SERVE, GatewayProcess, as_process, plain_failures, until

RELOADED, REFUSED, RESTART = "config_reloaded", "config_not_reloaded", "config_needs_restart"
SETTINGS = {"ROUTECODEX_CLOCK_NTP": "off", "HOLDGATE_SERVER__LOG_FORMAT": "json"}
PATIENCE = 20
Tables = Mapping[str, Any]


def write_toml(tables: Tables) -> str:
    """Write tables and arrays of tables as TOML."""
    lines: list[str] = []
    for name, table in tables.items():
        rows = table if isinstance(table, list) else [table]
        head = f"[[{name}]]" if isinstance(table, list) else f"[{name}]"
        for row in rows:
            lines += [head, *(f"{key} = {_write(value)}" for key, value in row.items())]
    return "\n".join(lines) + "\n"


def _write(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_write(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def upstream(name: str, port: int, **keys: Any) -> dict[str, Any]:
    """Write an upstream that serves any model."""
    return {"id": name, "base_url": f"http://127.0.0.1:{port}/v1", **keys}


def model(name: str, *upstreams: str) -> dict[str, Any]:
    """Write a model with a route to each upstream."""
    return {"name": name, "routes": [f"{one}/m" for one in upstreams], "clock": False}


def key(owner: str, text: str, **more: Any) -> dict[str, Any]:
    """Write a key."""
    return {"owner": owner, "key": text, **more}


class ReloadingProcess:
    """A gateway whose file is changed while it runs."""

    def __init__(self, process: GatewayProcess, file: Path) -> None:
        self.process = process
        self.file = file
        self.port = process.port
        self._clients: list[Client] = []

    def write(self, content: Tables | str) -> None:
        """Replace the file at once, as an editor does."""
        text = content if isinstance(content, str) else write_toml(content)
        draft = self.file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.file)

    def hang_up(self) -> None:
        """Send SIGHUP."""
        self.process.signal(signal.SIGHUP)

    async def reload(self, content: Tables | str) -> dict[str, Any]:
        """Change the file and have it read; return what the log says of it."""
        before = len(self.lines(RELOADED))
        self.write(content)
        self.hang_up()
        await until(lambda: len(self.lines(RELOADED)) > before, PATIENCE)
        return self.lines(RELOADED)[-1]

    async def refuse(self, content: Tables | str, mistakes: int) -> list[str]:
        """Change the file into one with mistakes; return those that the log lists."""
        before = len(self.lines(REFUSED))
        self.write(content)
        self.hang_up()
        await until(lambda: len(self.lines(REFUSED)) >= before + mistakes, PATIENCE)
        return [line["problem"] for line in self.lines(REFUSED)[before:]]

    def lines(self, *events: str) -> list[dict[str, Any]]:
        """Return what was logged of these events."""
        whole = self.process.log.read_text().rpartition("\n")[0].splitlines()
        return [line for line in map(json.loads, whole) if line["event"] in events]

    @property
    def descriptors(self) -> int:
        """How many files and connections it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    async def start(self, body: bytes, *headers: str) -> Client:
        """Open a connection and ask for a model's answer."""
        return await self.send(ask_of(body, *headers))

    async def send(self, request: bytes) -> Client:
        """Open a connection and send bytes on it."""
        client = await Client.connected(self.port)
        self._clients.append(client)
        await client.send(request)
        return client

    def close_clients(self) -> None:
        """Leave with every client that is still there."""
        for client in self._clients:
            client.leave()

    async def fetch(self, request: bytes) -> Answer:
        """Send a request and read its answer."""
        client = await self.send(request)
        try:
            return await client.answer()
        finally:
            client.leave()

    async def ask(self, name: str = "m", secret: str = "", text: str = "short") -> Answer:
        """Ask a model with a key, and read the answer."""
        headers = (f"authorization: Bearer {secret}",) if secret else ()
        return await self.fetch(ask_of(chat(text, model=name), *headers))


@asynccontextmanager
async def reloading(
    home: Path, content: Tables | str, *under: str, **settings: str
) -> AsyncIterator[ReloadingProcess]:
    """Run `holdgate serve` with a file of this content."""
    file = home / "holdgate.toml"
    file.write_text(content if isinstance(content, str) else write_toml(content))
    variables = {**SETTINGS, **settings}
    with plain_failures():
        async with as_process(
            home, variables, command=(*SERVE, "--config", str(file)), under=under
        ) as process:
            gate = ReloadingProcess(process, file)
            try:
                yield gate
            finally:
                gate.close_clients()
