"""Without an SDK nothing is traced, nothing is imported, and a client's trace is only passed on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.talking import room as agents_room
from tests.agents.talking import says
from tests.gateway.wire import streaming, turn
from tests.jobs.words import add, house, ran, run_now
from tests.pairs.gate import each_pair, gate, telling
from tests.pairs.neutral import Answer, Ask, Tongue
from tests.run import environment, in_process
from tests.sessions.talk import SESSION, model, talk
from tests.wire.fake import Request

from .spans import PARENT

GOOD = streaming(turn("hi"))
STATE = "tracestate: one=1"
ZEROS = "0" * 16


def told(request: Request) -> list[str]:
    """Read what an upstream was told of a trace, as header lines."""
    names = (b"traceparent", b"tracestate", b"baggage")
    found = [(name, value) for name, value in request.headers.items() if name in names]
    return [f"{name.decode()}: {value.decode()}" for name, value in found]


@each_pair
async def test_the_clients_trace_is_passed_on_unchanged(client: Tongue, upstream: Tongue) -> None:
    async with gate((upstream, telling(upstream, Answer("Fine."), True))) as between:
        await between.send(client, client.ask(Ask(), True), PARENT, STATE, "baggage: a=b")
        (asked,) = between.running.requests
    assert told(asked) == [PARENT, STATE]


async def test_an_agents_client_is_no_exception() -> None:
    async with agents_room(model()) as running:
        await running.fetch(says("hi", PARENT, STATE))
        assert told(running.requests[0]) == [PARENT, STATE]


async def test_a_run_of_a_job_has_no_client() -> None:
    async with house(model()) as running:
        await running.ask(talk("hi"), SESSION, PARENT)
        job_id = await add(running, agent="")
        await run_now(running, job_id)
        await ran(running, job_id, "ok")
        assert [told(request) for request in running.requests] == [[PARENT], []]


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (STATE,),
        (PARENT, PARENT),
        (f"{PARENT}-more",),
        (PARENT.upper(),),
        (PARENT.replace(": 00", ": ff"),),
        (f"traceparent: 00-{ZEROS}{ZEROS}-b7ad6b7169203331-01",),
        (f"traceparent: 00-0af7651916cd43dd8448eb211c80319c-{ZEROS}-01",),
        ("traceparent: 00-canary",),
    ],
)
async def test_none_is_made_and_a_broken_one_is_dropped(headers: tuple[str, ...]) -> None:
    async with in_process(GOOD) as running:
        assert (await running.ask(None, *headers)).status == 200
        assert told(running.requests[0]) == []


@pytest.mark.parametrize("state", ["tracestate: " + "x" * 513, "tracestate: caf\xe9=1"])
async def test_a_broken_state_is_dropped_alone(state: str) -> None:
    async with in_process(GOOD) as running:
        await running.ask(None, PARENT, state)
        assert told(running.requests[0]) == [PARENT]


# Serves a stream of the demo model in a process of its own, and then says what was imported.
SERVE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ImportError(f"{name} was asked for")
if "absent" in sys.argv:
    sys.meta_path.insert(0, Absent())

import json, threading, urllib.request
from pathlib import Path
from gateway.app.serving import serve
from gateway.config import load
import os, signal

def ask(url):
    body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    asked = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        assert answer.read().endswith(b"data: [DONE]\\n\\n")
    os.kill(os.getpid(), signal.SIGTERM)

variables = {"HOLDGATE_STORE__URL": "memory:", "ROUTECODEX_CLOCK_NTP": "off"}
config = load(None, variables, {"server.port": 0}, Path.cwd())
serve(config, lambda url: threading.Thread(target=ask, args=[url]).start())
print([name for name in sys.modules if name.startswith(("opentelemetry", "gateway.tracing"))])
"""


@pytest.mark.parametrize("api", ["absent", "installed"])
def test_a_stream_is_served_without_importing_opentelemetry(tmp_path: Path, api: str) -> None:
    done = subprocess.run(
        (sys.executable, "-c", SERVE, api),
        cwd=tmp_path,
        env=environment(tmp_path, {}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


LOOK = """
import sys
from pathlib import Path
from opentelemetry import trace
if sys.argv[1] == "sdk":
    from opentelemetry.sdk.trace import TracerProvider
    trace.set_tracer_provider(TracerProvider())
from gateway.app.tracing import find_tracer
from gateway.config import load
config = load(None, {"HOLDGATE_STORE__URL": "memory:"}, {}, Path.cwd())
print(type(find_tracer(config, {})).__name__)
"""


@pytest.mark.parametrize(
    "setup, settings, found",
    [
        ("api", {}, "NoneType"),
        ("sdk", {}, "OtelTracer"),
        ("sdk", {"OTEL_SDK_DISABLED": "true"}, "NoneType"),
    ],
)
def test_who_traces(tmp_path: Path, setup: str, settings: dict[str, str], found: str) -> None:
    """Nobody, unless a provider was set up and is not switched off."""
    done = subprocess.run(
        (sys.executable, "-c", LOOK, setup),
        cwd=tmp_path,
        env=environment(tmp_path, settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == [found], done.stderr
