"""How long others wait while a gateway handles a request, measured from outside."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.run import SERVE, as_process

from .shapes import DIALECTS

PATIENCE = 120
CONFIG = """
[[upstreams]]
id = "{name}"
dialect = "{name}"
base_url = "http://127.0.0.1:{port}/v1"
models = ["m"]

[[models]]
name = "{name}"
routes = ["{name}/m"]
"""
KEYS = """
[[keys]]
owner = "mallory"
key = "hard"

[[keys]]
owner = "alice"
key = "side"

[clock.ntp]
enabled = false
"""
SIDE = json.dumps(
    {"model": "openai-chat", "messages": [{"role": "user", "content": "hi"}]}
).encode()


@dataclass
class Waits:
    """How long requests took, one after the other, and how long the machine itself took."""

    of: dict[str, list[float]] = field(default_factory=lambda: {"live": [], "chat": [], "idle": []})

    @property
    def worst(self) -> float:
        """The longest wait for the gateway."""
        return max(*self.of["live"], *self.of["chat"])

    @property
    def noise(self) -> float:
        """The longest wait for a process that did nothing meanwhile."""
        return max(self.of["idle"])


class Probe(threading.Thread):
    """Asks again and again, and notes how long each answer took."""

    def __init__(self, port: int, path: str, body: bytes | None, waits: list[float]) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._path, self._body, self._waits = path, body, waits
        self._over = threading.Event()
        self._ask()
        waits.clear()
        self.start()

    def run(self) -> None:
        while not self._over.wait(0.005):
            self._ask()

    def _ask(self) -> None:
        begun = time.perf_counter()
        method = "GET" if self._body is None else "POST"
        headers = {"authorization": "Bearer side", "content-type": "application/json"}
        self._connection.request(method, self._path, self._body, headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200
        self._waits.append(time.perf_counter() - begun)

    def stop(self) -> None:
        self._over.set()
        self.join(PATIENCE)
        self._connection.close()


@dataclass
class Place:
    """A gateway, and the upstream of all its models."""

    port: int
    upstream: int
    pid: int

    def send(self, path: str, body: bytes, encoding: str = "") -> int:
        """Send a hard request; return the status of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"authorization": "Bearer hard", "content-type": "application/json"}
        if encoding:
            headers["content-encoding"] = encoding
        with contextlib.closing(connection):
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def measure(self, path: str, body: bytes, encoding: str = "") -> tuple[int, Waits]:
        """Send a hard request, and see how long others wait meanwhile."""
        waits = Waits()
        probes = [
            Probe(self.port, "/healthz", None, waits.of["live"]),
            Probe(self.port, "/v1/chat/completions", SIDE, waits.of["chat"]),
            Probe(self.upstream, "/", None, waits.of["idle"]),
        ]
        try:
            status = self.send(path, body, encoding)
        finally:
            for probe in probes:
                probe.stop()
        return status, waits


@contextlib.contextmanager
def gateway(directory: Path, *options: str) -> Iterator[Place]:
    """Run a gateway with an upstream for each dialect, in processes of their own."""
    with contextlib.ExitStack() as stack:
        fake = as_process(directory, command=("tests.fairness.upstream",), grace=PATIENCE)
        upstream = stack.enter_context(fake).port
        tables = [CONFIG.format(name=name, port=upstream) for name in DIALECTS]
        config = directory / "holdgate.toml"
        config.write_text("".join((*tables, KEYS)))
        settings = {"HOLDGATE_SERVER__SESSION_DIR": str(directory / "sessions")}
        command = (*SERVE, "--config", str(config), *options)
        gate = stack.enter_context(as_process(directory, settings, command=command, grace=PATIENCE))
        place = Place(gate.port, upstream, gate.pid)
        # The first large request starts the helper.
        place.send("/v1/chat/completions", b'{"model":"none","x":"%b"}' % (b"x" * 200_000))
        yield place
