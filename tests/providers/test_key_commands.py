"""Upstreams whose key a real command prints: no request fails when it expires."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import anyio
import pytest

from tests.gateway.wire import chat, streaming, turn
from tests.run import in_process
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, sized

# Renewed a fifth of it before: a busy machine may take as long to pass a request on.
LIFETIME = 2.5
KEYS = 3
# It prints when the key expires, as part of the key, so that the upstream knows.
SCRIPT = f"""
import json, time
at = time.time() + {LIFETIME}
print(json.dumps({{"token": f"key-{{at:.6f}}", "expires_at": at}}))
"""
NO = json.dumps({"error": {"message": "Which key?"}}).encode()


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_an_expiring_key_is_renewed_without_a_failed_request(
    tmp_path: Path, transport: str
) -> None:
    seen: list[float] = []

    async def strict(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            at = float(asked.headers[b"authorization"].removeprefix(b"Bearer key-"))
            seen.append(at)
            if time.time() >= at:
                await peer.send(sized(NO, "content-type: application/json", status="401 No"))
            else:
                await peer.send(CHUNKED, chunk(turn("one")), LAST)

    (tmp_path / "get-key.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "get-key.py")]
    upstream = {"api_key_command": command, "transport": transport}
    async with in_process(strict, upstream=upstream) as gate:
        while len(set(seen)) < KEYS:
            assert (await gate.ask()).text == "one"
            await anyio.sleep(0.02)
    assert "key-" not in gate.log


async def test_a_failing_command_is_the_operators_problem(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('canary'); raise SystemExit(7)"]
    upstream = {"api_key_command": command}
    async with in_process(streaming(turn("one")), upstream=upstream) as gate:
        answer = await gate.ask()
        await gate.quiet()
        log = [json.loads(line) for line in gate.log.splitlines()]
    assert (answer.status, answer.error["code"]) == (502, "upstream_auth")
    assert "ended with status 7" in answer.error["message"]
    assert {"upstream_auth", "api_key_command_failed"} <= {line["event"] for line in log}
    assert "canary" not in gate.log + answer.error["message"]
    assert gate.requests == []


async def test_a_key_that_is_refused_is_not_used_again(tmp_path: Path) -> None:
    counting = tmp_path / "get-key.py"
    counting.write_text("import time\nprint(f'key-{time.time_ns()}')\n")

    async def refusing(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            said = json.dumps({"error": {"message": asked.headers[b"api-key"].decode()}}).encode()
            await peer.send(sized(said, "content-type: application/json", status="403 No"))

    upstream = {"api_key_command": [sys.executable, str(counting)], "auth": "api-key"}
    async with in_process(refusing, upstream=upstream) as gate:
        for _ in range(2):
            answer = await gate.ask(chat())
            assert answer.status == 502
            assert b"key-" not in answer.body
        keys = {asked.headers[b"api-key"] for asked in gate.requests}
    assert len(keys) == 2


async def test_a_command_that_prints_without_end_is_ended() -> None:
    script = "import os\nwhile True: os.write(1, b'canary' * 10_000)"
    upstream = {"api_key_command": [sys.executable, "-c", script]}
    async with in_process(streaming(turn("one")), upstream=upstream) as gate:
        answer = await gate.ask()
        assert (answer.status, answer.error["code"]) == (502, "upstream_auth")
        assert "printed more than 256 KB" in answer.error["message"]
        await gate.quiet()
        assert "canary" not in gate.log
