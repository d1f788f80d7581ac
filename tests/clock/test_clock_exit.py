"""A process can end although a name is being looked up for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHILD = """
import sys, threading, anyio
from gateway.clock import NtpClock, NtpSettings

entered = threading.Event()

def look_up(host, port):
    entered.set()
    threading.Event().wait()

async def main():
    clock = NtpClock(NtpSettings(("lost.test",), timeout_ms=int(sys.argv[2])), look_up=look_up)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.run)
        while not entered.is_set() or (sys.argv[2] == "1" and clock.ntp.status != "error"):
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    print(clock.ntp.status, clock.ntp.last_error)

anyio.run(main, backend_options={"use_uvloop": sys.argv[1] == "uvloop"})
"""

OUTCOMES = {"1": "error lost.test: no answer within 1 ms", "600000": "stale"}


@pytest.mark.parametrize("timeout_ms", OUTCOMES)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_thread_that_was_given_up_does_not_keep_the_process(loop: str, timeout_ms: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, loop, timeout_ms],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == OUTCOMES[timeout_ms]
