"""Lines of the log join: one search for a client's own id shows all that was done for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clock.holding import acting, calls, fails, says, schedules
from tests.clock.reminding import fetch, variables
from tests.gateway.wire import ask_of, chat, get, request
from tests.jobs.words import seen
from tests.run import as_process
from tests.sessions.talk import JSON, SESSION
from tests.wire.fake import Peer, Story, fake_upstream

MINE = "my-own-id.1"
WORDS = "canary-words"
KEY = "canary-key"
JOB = {"action": "add", "schedule": {"kind": "every", "every_ms": 3_600_000}, "message": WORDS}
SETTINGS = {
    "clock__due_window_ms": "0",
    "cron__offer_to_clients": "true",
    "server__log_format": "json",
    "server__log_level": "info",
}


def failing_first(other: Story) -> Story:
    """Fail the first request, and tell another story from then on."""
    failed = False

    async def story(peer: Peer) -> None:
        nonlocal failed
        # At the start the gateway connects, and asks nothing.
        await peer.asked()
        if not failed:
            failed = True
            await peer.request()
            await peer.send(*fails("503 Busy")({}, ""))
        await other(peer)

    return story


def grep(text: str, log: Path) -> list[dict[str, Any]]:
    """Search a log as an operator does."""
    found = subprocess.run(["grep", "-F", text, str(log)], capture_output=True, text=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def events(lines: list[dict[str, Any]]) -> list[str]:
    return [line["event"] for line in lines]


async def logged(log: Path, is_so: Callable[[list[str]], bool]) -> list[dict[str, Any]]:
    """Wait until the lines of the client's request are there; return them."""

    async def look() -> list[dict[str, Any]]:
        return grep(MINE, log)

    return await seen(look, lambda lines: is_so(events(lines)))


async def test_one_search_shows_all_of_a_request(tmp_path: Path) -> None:
    """Fail-over, two tools, a hold, a reminder, a stop message, the result of a job."""
    tells = says(f"{WORDS} told")
    model = acting(schedules(700, WORDS), calls("schedule_task", lambda asked: JOB), tells)
    async with fake_upstream(failing_first(model)) as one, fake_upstream(model) as other:
        settings = variables(one.port, other.port, **SETTINGS, upstreams=_upstreams(one, other))
        async with as_process(tmp_path, settings) as gate:
            asked = chat(f'{WORDS} <**stopMessage:"{WORDS} on",1**>')
            answer = await fetch(gate.port, ask_of(asked, SESSION, f"x-request-id: {MINE}"))
            assert answer.status == 200
            exchange = answer.headers["x-holdgate-exchange"]
            lines = await logged(gate.log, lambda found: "exchange" in found)
            assert all(line["exchange"] == exchange for line in lines)
            assert set(events(lines)) >= {
                "route_failed",
                "tool",
                "turn",
                "reminders_scheduled",
                "reminders_reserved",
                "reminders_committed",
                "job_added",
                "exchange",
            }
            assert [line["tool"] for line in lines if line["event"] == "tool"] == [
                "clock",
                "schedule_task",
            ]
            (whole,) = [line for line in lines if line["event"] == "exchange"]
            assert (whole["turns"], whole["tries"], whole["session"]) == (5, 6, "s")
            turns = [line["turn"] for line in lines if line["event"] == "turn"]
            assert turns == [2, 3, 4, 5]
            # Nothing that belongs to it goes without the client's id.
            assert events(grep(exchange, gate.log)) == events(lines)
            (scheduled,) = [line for line in lines if line["event"] == "reminders_scheduled"]
            assert scheduled["earliest_due"].endswith("Z")
            assert (scheduled["count"], scheduled["store"]) == (1, "ok")
            (reserved,) = [line for line in lines if line["event"] == "reminders_reserved"]
            (committed,) = [line for line in lines if line["event"] == "reminders_committed"]
            assert reserved["tasks"] == committed["tasks"]
            assert committed["delivery_counts"] == "1"
            await _deliver(gate.port, gate.log)
            stamps = [json.loads(line)["time"] for line in gate.log.read_text().splitlines()]
            assert stamps == sorted(stamps)
            log = gate.log.read_text()
            assert "canary" not in log


def _upstreams(*fakes: Any) -> str:
    return json.dumps(
        [
            {"id": name, "base_url": f"http://127.0.0.1:{fake.port}/v1", "api_key": KEY}
            for name, fake in zip("ab", fakes, strict=True)
        ]
    )


async def _deliver(port: int, log: Path) -> None:
    """Run the job, and let another request of the session carry its result."""
    listing = (await fetch(port, get("/api/cron/list"))).json["data"]["jobs"]
    body = json.dumps({"job_id": listing[0]["job_id"]}).encode()
    await fetch(port, request("POST", "/api/cron/run", JSON, body=body))

    async def runs() -> list[dict[str, Any]]:
        return grep('"event":"run_ended"', log)

    (ended,) = await seen(runs, bool)
    # All lines of a run are found by its id.
    assert {"exchange", "run_ended"} <= set(events(grep(ended["run"], log)))
    await fetch(port, ask_of(chat("and?"), SESSION, "x-request-id: my-next-id"))

    async def carried() -> list[dict[str, Any]]:
        return grep("my-next-id", log)

    wanted = {"deliveries_reserved", "deliveries_committed", "exchange"}
    await seen(carried, lambda lines: wanted <= set(events(lines)))


@pytest.mark.parametrize("form", ["text", "json"])
async def test_refused_requests_have_a_line_with_the_sentence(form: str, tmp_path: Path) -> None:
    keys = json.dumps([{"owner": "ann", "key": KEY}])
    settings = {"HOLDGATE_KEYS": keys, "HOLDGATE_SERVER__LOG_FORMAT": form}
    mine, own = f"x-request-id: {MINE}", f"x-api-key: {KEY}"
    refusals = {
        401: ask_of(chat(), mine),
        404: ask_of(chat(model="nobody"), mine, own),
        400: ask_of(b"{", mine, own),
        403: ask_of(chat(), mine, own, "origin: http://foreign.example"),
        405: get("/v1/messages", mine, own),
        413: request("POST", "/v1/messages", JSON, mine, own, body=b" " * 300),
        415: request("POST", "/v1/messages", "content-type: text/plain", mine, own, body=b"{}"),
    }
    async with as_process(
        tmp_path,
        {**settings, "HOLDGATE_LIMITS__BODY_BYTES": "250", "HOLDGATE_CLOCK__NTP__ENABLED": "0"},
    ) as gate:
        for status, asked in refusals.items():
            answer = await fetch(gate.port, asked)
            assert answer.status == status, bytes(answer.body)
            assert answer.headers["x-holdgate-exchange"].startswith("req_")

        async def look() -> list[str]:
            return [line for line in gate.log.read_text().splitlines() if MINE in line]

        lines = await seen(look, lambda found: len(found) == len(refusals))
        assert all("refused" in line and "warning" in line.lower() for line in lines)
        for status, line in zip(refusals, lines, strict=True):
            assert f"status={status} " in line or f'"status":{status},' in line
            assert "says" in line
        assert KEY not in gate.log.read_text()


async def test_debug_shows_every_step_and_no_words(tmp_path: Path) -> None:
    async with fake_upstream(acting(says(WORDS))) as fake:
        settings = variables(fake.port, **{**SETTINGS, "server__log_level": "debug"})
        async with as_process(tmp_path, settings) as gate:
            await fetch(gate.port, ask_of(chat(WORDS), f"x-request-id: {MINE}"))
            lines = await logged(gate.log, lambda found: "exchange" in found)
            steps = [line["what"] for line in lines if line["event"] == "step"]
            assert steps[0] == "RouteTried"
            assert {"FirstFrame", "TurnEnded", "UpstreamClosed", "StateChanged"} <= set(steps)
            assert WORDS not in gate.log.read_text()


async def test_heartbeats_are_steps_of_their_exchange(tmp_path: Path) -> None:
    async with fake_upstream(acting(schedules(700, WORDS), says("Hi"))) as fake:
        debug = {"server__log_level": "debug", "server__keepalive_ms": "100"}
        settings = variables(fake.port, **{**SETTINGS, **debug})
        async with as_process(tmp_path, settings) as gate:
            await fetch(gate.port, ask_of(chat(), SESSION, f"x-request-id: {MINE}"))
            lines = await logged(gate.log, lambda found: "exchange" in found)
            beats = [line for line in lines if line.get("what") == "Heartbeat"]
            assert beats
            assert len(grep('"Heartbeat"', gate.log)) == len(beats)


async def test_warning_leaves_only_what_went_wrong(tmp_path: Path) -> None:
    async with fake_upstream(acting(says("Hi"))) as fake:
        settings = variables(fake.port, **{**SETTINGS, "server__log_level": "warning"})
        async with as_process(tmp_path, settings) as gate:
            await fetch(gate.port, ask_of(chat(), f"x-request-id: {MINE}"))
            await fetch(gate.port, ask_of(b"{", f"x-request-id: {MINE}"))
            lines = await logged(gate.log, bool)
            assert events(lines) == ["refused"]
