"""Trace three real exchanges of a gateway that runs as a process, on real sockets.

Each is traced after one of the same kind, so that what is made once is not counted, and an answer
comes from the model in one piece, so that the figures do not depend on the number of events.

- *plain*: a streamed chat completion, on a connection that is open, of a model without the clock;
- *hold*: the model sets a reminder, the answer is held and goes on when the reminder is due;
- *isolated*: a job's isolated run by its schedule, and the result said in the agent's session.

What is counted:

- *modules*, *packages*: in which a function was called or a coroutine went on. A module right in
  `gateway/`, such as `gateway/routing.py`, is a package. Coroutines that go on while nobody asks
  for anything, such as the server's main loop, do not count;
- *functions*: distinct ones, without lambdas, comprehensions and generator expressions;
- *switches*: how often a call is in another package than the call before it. All calls count, in
  their order, those of lambdas too; a coroutine that goes on is no call.

So defined, eefbbb8 has 49 modules, 14 packages, 204 functions (219 with lambdas) and 84 switches in
*plain*, 80 modules in *hold* and 79 in *isolated*. Figures taken from it before by other means were
49, 14, 218 and 83; 81; 82: they can be compared. They differ by one or two from run to run, where
threads and timers meet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

from model import Model, running_model

SETTLING = 0.4
"""How long what follows an answer may take (reports, commits), in seconds."""
IDLE_SECONDS = 1.2
"""How long nobody asks, to see what goes on anyway; some tasks wake once a second."""
CONFIG = """
[server]
host = "127.0.0.1"
port = 0
session_dir = "{state}"

[clock]
due_window_ms = 0

[clock.ntp]
enabled = false

[[upstreams]]
id = "a"
base_url = "http://127.0.0.1:{port}/v1"
models = ["m"]

[[models]]
name = "plain"
routes = ["a/m"]
clock = false

[[models]]
name = "timed"
routes = ["a/m"]

[[agents]]
id = "helper"
model = "timed"
system = "You help."
tools = ["schedule_task"]
"""
NO_KEYS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}


@dataclass(frozen=True)
class Call:
    """A function of `gateway/` that was called, or that went on."""

    module: str
    function: str
    is_resumed: bool

    @property
    def package(self) -> str:
        """The top-level package; a module right in `gateway/` is one as well."""
        return self.module.partition(".")[0]

    @property
    def is_named(self) -> bool:
        """Whether it is no lambda, comprehension or generator expression."""
        return not self.function.endswith(">")


@dataclass(frozen=True)
class Trace:
    """The calls of one exchange, in their order."""

    calls: list[Call]

    @property
    def modules(self) -> list[str]:
        """The modules, in the order in which they are first entered."""
        return list(dict.fromkeys(call.module for call in self.calls))

    @property
    def packages(self) -> list[str]:
        """The top-level packages, in that order."""
        return list(dict.fromkeys(call.package for call in self.calls))

    @property
    def functions(self) -> list[str]:
        """The functions, in that order."""
        named = (call for call in self.calls if call.is_named)
        return list(dict.fromkeys(f"{call.module}:{call.function}" for call in named))

    @property
    def switches(self) -> int:
        """How often a call is in another package than the one before it."""
        begun = [call for call in self.calls if not call.is_resumed]
        return sum(a.package != b.package for a, b in pairwise(begun))


class TracedGateway:
    """A gateway that runs as a process, with the recorder in it."""

    def __init__(self, process: subprocess.Popen[str], done: Any, state: Path, url: str) -> None:
        self._process, self._done, self._state = process, done, state
        self._connection = HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=30)
        self._idle: set[Call] = set()

    def watch_idle(self) -> None:
        """Learn what goes on while nobody asks for anything."""
        calls: list[Call] = []
        with self.recording(calls):
            time.sleep(IDLE_SECONDS)
        self._idle = {call for call in calls if call.is_resumed}

    def _order(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        assert self._done.readline(), "the traced gateway ended"

    @contextmanager
    def recording(self, calls: list[Call]) -> Iterator[None]:
        """Record what is called meanwhile, and until all that follows from it has settled."""
        self._order("start")
        yield
        time.sleep(SETTLING)
        out = self._state / "calls"
        self._order(f"stop {out}")
        for line in out.read_text().splitlines():
            module, function, how = line.split("\t")
            call = Call(module, function, how == "resume")
            if call not in self._idle:
                calls.append(call)

    def post(self, path: str, body: Any, **headers: str) -> str:
        """Send a request on the one connection; return the whole answer."""
        sent = {"content-type": "application/json", **headers}
        self._connection.request("POST", path, json.dumps(body), sent)
        response = self._connection.getresponse()
        answer = response.read().decode()
        assert response.status == 200, f"{path} answered {response.status}: {answer}"
        return answer


@contextmanager
def traced_gateway(tree: Path, upstream_port: int) -> Iterator[TracedGateway]:
    """Run the gateway of a tree, with one upstream, one agent and a state of its own."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        config = state / "holdgate.toml"
        config.write_text(CONFIG.format(state=state / "sessions", port=upstream_port))
        reading, writing = os.pipe()
        recorder = Path(__file__).with_name("recorder.py")
        # The shell's only deed is to give the pipe the number that the recorder knows.
        command = [sys.executable, recorder, tree, "serve", "--config", config]
        environment = {key: v for key, v in os.environ.items() if key not in NO_KEYS}
        with subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" 3>&{writing}', "sh", *map(str, command)],
            cwd=state,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(state / "log").open("w"),
            text=True,
            pass_fds=[writing],
        ) as process:
            os.close(writing)
            assert process.stdout is not None
            line = process.stdout.readline()
            if "listening on " not in line:
                raise RuntimeError(f"no gateway: {line}{(state / 'log').read_text()}")
            with os.fdopen(reading) as done:
                yield TracedGateway(process, done, state, line.split()[-1])
                assert process.stdin is not None
                process.stdin.close()
                process.wait(20)


def trace_all(tree: Path) -> dict[str, Trace]:
    """Return the traces of the three exchanges by their names."""
    with running_model() as (model, port), traced_gateway(tree.resolve(), port) as gateway:
        gateway.watch_idle()
        return {
            "plain": trace_plain(gateway),
            "hold": trace_hold(gateway),
            "isolated": trace_isolated(gateway, model),
        }


def chat(model: str, text: str) -> dict[str, Any]:
    """Return the plainest streamed request."""
    return {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}


def trace_plain(gateway: TracedGateway) -> Trace:
    """Trace a streamed answer: no session, no tools of the client."""
    calls: list[Call] = []
    gateway.post("/v1/chat/completions", chat("plain", "Hello!"))
    time.sleep(SETTLING)
    with gateway.recording(calls):
        gateway.post("/v1/chat/completions", chat("plain", "Hello!"))
    return Trace(calls)


def trace_hold(gateway: TracedGateway) -> Trace:
    """Trace an answer whose model sets a reminder, is held for it and woken by it."""
    calls: list[Call] = []

    def ask(session: str) -> None:
        headers = {"x-session-id": session}
        answer = gateway.post("/v1/chat/completions", chat("timed", "remind me"), **headers)
        # The turn after the call, and the one after the hold.
        assert answer.count("word4") == 2, answer

    ask("first")
    time.sleep(SETTLING)
    with gateway.recording(calls):
        ask("second")
    return Trace(calls)


def trace_isolated(gateway: TracedGateway, model: Model) -> Trace:
    """Trace the isolated run of an agent's job, due by its schedule, and its result's way back."""
    calls: list[Call] = []

    def add(name: str) -> None:
        due = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat(timespec="milliseconds")
        schedule = {"kind": "at", "at": due}
        job = {"agent_id": "helper", "session": "isolated", "name": name, "message": "What is new?"}
        gateway.post("/api/cron/add", {**job, "schedule": schedule})

    def await_result(name: str) -> None:
        model.await_request(f'[Scheduled task \\"{name}\\" result]')

    add("first")
    await_result("first")
    time.sleep(SETTLING)
    add("second")
    with gateway.recording(calls):
        await_result("second")
    return Trace(calls)
