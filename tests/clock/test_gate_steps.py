"""A gateway whose system clock jumps an hour ahead for some seconds, and comes back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio

from tests.clock.reminding import due, fetch, setting, variables
from tests.gateway.wire import get
from tests.jobs.test_jobs_crash import Door
from tests.jobs.words import HELPER, add, every
from tests.run import ROOT, until
from tests.sessions.process import process
from tests.sessions.talk import model
from tests.wire.fake import fake_upstream

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
# Read by every Python process that finds it on its path: its clock is off by what a file says.
STEPPED_CLOCK = """
import os, time
real, real_ns = time.time, time.time_ns
def seconds():
    with open(os.environ["STEPPED_BY"]) as file:
        return float(file.read() or 0)
time.time = lambda: real() + seconds()
time.time_ns = lambda: real_ns() + int(seconds() * 10**9)
"""


async def test_a_clock_that_jumps_ahead_for_seconds_loses_nothing(tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    later.joinpath("sitecustomize.py").write_text(STEPPED_CLOCK)
    step = tmp_path / "step"
    step.write_text("0")
    async with fake_upstream(model("done")) as fake:
        settings = {
            **variables(fake.port, agents=json.dumps([HELPER])),
            "PYTHONPATH": f"{later}:{ROOT}",
            "STEPPED_BY": str(step),
            "HOLDGATE_CLOCK__TICK_MS": str(3 * SECOND),
        }
        async with process(tmp_path, settings) as gate:
            reminder = due("drink tea", int(time.time() * SECOND) + 5 * MINUTE)
            assert (await fetch(gate.port, setting(reminder))).status == 201
            await add(Door(gate.port), schedule=every(SECOND))
            await until(lambda: len(fake.requests) >= 1, patience=30)
            step.write_text(str(HOUR / SECOND))
            await anyio.sleep(1)
            step.write_text("0")
            before = len(fake.requests)
            await until(lambda: len(fake.requests) >= before + 2, patience=30)
            # Two ticks later, too.
            await anyio.sleep(6.5)
            shown = (await fetch(gate.port, get("/api/sessions/s/reminders"))).json
            assert "drink tea" in json.dumps(shown["items"])
