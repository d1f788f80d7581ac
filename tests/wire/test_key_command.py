"""Keys that a command prints: read, used while valid, renewed in time, never shown."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.errors import UpstreamAuth
from gateway.wire.http_client.key_command import USUAL_LIFETIME, KeyCommand, NoKey, read_key
from tests.run import until

NOW = 1_800_000_000.0
SECRET = "canary-of-the-command"
READ = {
    "sk-1\n": (b"sk-1", USUAL_LIFETIME),
    '{"token": "sk-1"}': (b"sk-1", USUAL_LIFETIME),
    '{"token": "sk-1", "expires_in": 90}': (b"sk-1", 90),
    f'{{"token": "sk-1", "expires_at": {NOW + 30}}}': (b"sk-1", 30),
    '{"token": "sk-1", "expires_at": "2027-01-15T08:01:00Z"}': (b"sk-1", 60),
    '{"token": "sk-1", "expires_at": "2027-01-15T08:01:00"}': (b"sk-1", 60),
    '{"token": "sk-1", "expires_at": "2027-01-15T10:01:00+02:00"}': (b"sk-1", 60),
    '{"token": "sk-1", "expires_at": null, "expires_in": 5}': (b"sk-1", 5),
    '{"token": "sk-1", "expires_in": "90"}': (b"sk-1", 90),
    f'{{"token": "sk-1", "expires_at": "{NOW + 30:.0f}"}}': (b"sk-1", 30),
}
NOT_READ = {
    "": "no key",
    "\n": "no key",
    "two\nlines": "no key",
    "schlüssel": "no key",
    "x" * 20_000: "no key",
    "{": "invalid JSON",
    '{"token": 7}': "no key",
    '{"tokens": "sk-1"}': "no key",
    '{"token": "sk-1", "expires_in": 0}': "a key that has expired",
    f'{{"token": "sk-1", "expires_at": {NOW - 1}}}': "a key that has expired",
    '{"token": "sk-1", "expires_at": "soon"}': "an expires_at that is not a time",
    '{"token": "sk-1", "expires_at": [7]}': "an expires_at that is not a time",
    '{"token": "sk-1", "expires_in": "soon"}': "an expires_in that is not a number of seconds",
    '{"token": "sk-1", "expires_in": 1e999}': "invalid JSON",
    '{"token": "sk-1", "expires_in": "inf"}': "an expires_in that is not a number of seconds",
}


@pytest.mark.parametrize("output", READ)
def test_what_a_command_prints(output: str) -> None:
    printed = read_key(output.encode(), NOW)
    assert (printed.text, printed.seconds) == READ[output]


@pytest.mark.parametrize("output", NOT_READ)
def test_what_is_no_key(output: str) -> None:
    with pytest.raises(NoKey) as caught:
        read_key(output.encode(), NOW)
    assert str(caught.value) == f"printed {NOT_READ[output]}"


Command = Callable[..., KeyCommand]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return a function that makes a key command of a Python script."""

    def make(script: str, *arguments: str, notes: list[Any] | None = None, **options: Any) -> Any:
        file = tmp_path / "get-key.py"
        file.write_text(script)
        words = (sys.executable, str(file), *arguments)
        noted = (lambda *a, **f: notes.append((a, f))) if notes is not None else _silent
        return KeyCommand("a", words, noted, time.monotonic, time.time, **options)

    return make


def _silent(*_: Any, **__: Any) -> None:
    """Note nothing."""


COUNTING = """
import json, pathlib, sys
log = pathlib.Path(sys.argv[1])
with log.open("a") as file:
    file.write("x")
print(json.dumps({"token": f"key-{len(log.read_text())}", "expires_in": float(sys.argv[2])}))
"""


async def test_a_key_is_kept_until_it_expires(command: Command, tmp_path: Path) -> None:
    log = tmp_path / "log"
    key = command(COUNTING, str(log), "0.5")
    assert await key.get() == b"key-1"
    assert await key.get() == b"key-1"
    await anyio.sleep(0.6)
    assert await key.get() == b"key-2"
    assert key.secrets() == (b"key-2", b"key-1")


async def test_who_comes_at_once_shares_one_run(command: Command, tmp_path: Path) -> None:
    key, found = command(COUNTING, str(tmp_path / "log"), "60"), []

    async def ask() -> None:
        found.append(await key.get())

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert found == [b"key-1"] * 20


async def test_a_refused_key_is_asked_for_again(command: Command, tmp_path: Path) -> None:
    key = command(COUNTING, str(tmp_path / "log"), "60")
    key.forget(await key.get())
    assert await key.get() == b"key-2"
    key.forget(b"key-1")
    assert await key.get() == b"key-2"


async def test_the_background_renews_before_the_end(command: Command, tmp_path: Path) -> None:
    key, log = command(COUNTING, str(tmp_path / "log"), "1"), tmp_path / "log"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(key.run)
        await until(lambda: log.exists() and len(log.read_text()) >= 3, 20)
        tasks.cancel_scope.cancel()
    # Nobody asked for any of them.
    assert key.secrets()


async def test_a_stopped_command_still_serves_who_needs_a_key(
    command: Command, tmp_path: Path
) -> None:
    key = command(COUNTING, str(tmp_path / "log"), "60")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(key.run)
            await until(lambda: key.is_valid, 20)
            key.stop()
        # It has ended, though nobody else ended it; and so does one that is stopped before.
        await key.run()
        key.forget(await key.get())
        assert await key.get() == b"key-2"


FAILING = f"""
import sys
print("{SECRET}")
print("{SECRET}", file=sys.stderr)
sys.exit(3)
"""
SLEEPING = "import time; time.sleep(60)"


@pytest.mark.parametrize(
    "script, seconds, why",
    [
        (FAILING, 20, "ended with status 3"),
        (f"print('{SECRET}\\n{SECRET}')", 20, "printed no key"),
        (f"print('{{{SECRET}')", 20, "printed invalid JSON"),
        (f"print('{SECRET}', flush=True)\n{SLEEPING}", 0.5, "ran longer than 0.5 s"),
    ],
)
async def test_a_failure_names_the_command_and_not_its_output(
    command: Command, script: str, seconds: float, why: str
) -> None:
    notes: list[Any] = []
    key = command(script, "--password", SECRET, notes=notes, seconds=seconds)
    with pytest.raises(UpstreamAuth) as caught:
        await key.get()
    name = Path(sys.executable).name
    message = f"There is no key for upstream a: api_key_command {name} {why}."
    assert caught.value.message == message
    assert caught.value.may_fail_over
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(key.run)
        await until(lambda: bool(notes), 20)
        tasks.cancel_scope.cancel()
    (((event,), fields),) = notes
    assert (event, fields["upstream"]) == ("api_key_command_failed", "a")
    assert why in fields["says"]
    assert SECRET not in json.dumps(notes) + message


async def test_a_command_that_is_not_there() -> None:
    key = KeyCommand("a", ("/nowhere/get-key",), _silent, time.monotonic, time.time)
    with pytest.raises(UpstreamAuth, match="get-key cannot be started: No such file"):
        await key.get()
