"""The commands of an operator with a PostgreSQL: check, migrate, serve."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.stores.postgres.migrations import MIGRATIONS
from gateway.timestamps import iso
from tests.gateway.client import Answer
from tests.gateway.wire import get, request
from tests.run import GatewayProcess, as_process
from tests.sessions.talk import JSON

from .server import make_schema_name, shared_server


def holdgate(
    home: Path, url: str, schema: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environ = {"HOME": str(home), "HOLDGATE_STORE__URL": url, "HOLDGATE_STORE__SCHEMA": schema}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=home,
        env={**environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_migrate_makes_the_schema_once(tmp_path: Path) -> None:
    url, schema = shared_server().url, make_schema_name()
    first = holdgate(tmp_path, url, schema, "migrate")
    newest = len(MIGRATIONS)
    says = f"The schema {schema} has version {newest} now; it had version 0.\n"
    assert (first.returncode, first.stdout, first.stderr) == (0, says, "")
    again = holdgate(tmp_path, url, schema, "migrate")
    says = f"The schema {schema} has version {newest}; there is nothing to do.\n"
    assert (again.returncode, again.stdout, again.stderr) == (0, says, "")


def test_migrate_is_for_postgresql_only(tmp_path: Path) -> None:
    result = holdgate(tmp_path, "memory:", "s", "migrate")
    assert result.returncode == 1
    assert "postgresql://" in result.stderr


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path, command: str) -> None:
    url = f"postgresql://u:canary@/d?host={tmp_path}"
    result = holdgate(tmp_path, url, "s", command)
    assert result.returncode == 1
    assert "The database of store.url cannot be reached" in result.stderr
    assert "canary" not in result.stdout + result.stderr


async def test_a_process_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    settings = {
        "HOLDGATE_STORE__URL": shared_server().url,
        "HOLDGATE_STORE__SCHEMA": make_schema_name(),
        "HOLDGATE_CLOCK__NTP__ENABLED": "false",
    }
    body = json.dumps({"dueAt": iso(int(time.time() * 1000) + 3_600_000), "task": "tea"}).encode()
    async with as_process(tmp_path, settings) as gate:
        answer = await fetch(gate, request("POST", "/api/sessions/s/reminders", JSON, body=body))
        assert answer.status == 201, bytes(answer.body)
        await gate.kill()
    async with as_process(tmp_path, settings, grace=20) as gate:
        answer = await fetch(gate, get("/api/sessions/s/reminders"))
        assert [item["task"] for item in answer.json["items"]] == ["tea"]
        assert await gate.terminate() == 0
    assert not list(tmp_path.glob("**/holdgate.sqlite3"))


async def fetch(gate: GatewayProcess, asked: bytes) -> Answer:
    client = await gate.connect()
    await client.send(asked)
    return await client.answer()


def test_check_finds_the_database(tmp_path: Path) -> None:
    result = holdgate(tmp_path, shared_server().url, "s", "check")
    assert (result.returncode, result.stderr) == (0, "")
