"""Many held connections: their memory, their heartbeats, all due at once, all ended by SIGTERM."""

from __future__ import annotations

import gc
import re
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from time import time
from typing import TypeVar

import anyio
import httpx
import msgspec
from anyio.to_thread import run_sync

from bench.holding import Crowd, latest, wish
from bench.load import Counts as Clocks
from bench.load import Job, Sample, Watch, count, drive
from bench.processes import Cores, ProcessFailed, allow_descriptors, resident_bytes
from bench.progress import Progress
from bench.reminding import Counts
from bench.scenarios import SCENARIOS, Length, request
from bench.targets import HOLDGATE_CONFIG, Place, Target, holdgate_with, upstream
from bench.users import Order, Tally

T = TypeVar("T")

REMINDING = (sys.executable, "-m", "bench.reminding", "--port", "0")
# Beside the clients: connections to the upstream, those of newcomers, files of the store.
SPARE_FILES = 1500
DUE_WINDOW_S = 60.0
DRAIN_S = 30.0
FAR_S = 500.0
SETTLE_S = 1.0
SPARE_S = 3.0
PATIENCE_S = 60.0
LOOK_S = 0.02
HELD_NOW = re.compile(rb"^holdgate_holds_active ([\d.]+)", re.MULTILINE)
WERE_DUE = re.compile(rb'^holdgate_holds_ended_total{outcome="due"} ([\d.]+)', re.MULTILINE)
NEWCOMERS, NEW_EACH_S = 8, 100

SETTINGS = """\
[store]
url = "{store}"
[limits]
holds = {held}
holds_per_owner = {held}
[clock]
hold_max_ms = 600000
"""

STEPS = (
    "new requests while nothing is held",
    "all ask and are held",
    "all are held, nothing else happens",
    "new requests while all are held",
    "SIGTERM ends all",
    "all ask again and are held",
    "all are due at once",
)


@dataclass(frozen=True, slots=True)
class HoldsPlan:
    """How many are held, and how long they are looked at."""

    held: int
    quiet_s: float
    newcomers: Length
    store: str = ""


FULL_HOLDS = HoldsPlan(10_000, quiet_s=20.0, newcomers=Length(warm_s=1.0, measure_s=10.0))
QUICK_HOLDS = HoldsPlan(1000, quiet_s=3.0, newcomers=Length(warm_s=0.5, measure_s=2.0))


@dataclass(frozen=True, slots=True)
class Drained:
    """What was seen of many that were held until the gateway was told to go."""

    opened_s: float
    idle_bytes: int
    held_bytes: int
    quiet: Clocks
    before: Sample
    during: Sample
    ended: int
    ended_s: float
    exit_s: float
    exit_status: int
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Woken:
    """What was seen of many that were due at once; times are counted from that instant."""

    left: int
    left_s: float
    ended: int
    ended_s: float
    follow_ups: int
    most_at_once: int
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HoldsStage:
    """The gateway, its upstream, and how to say how far it is."""

    plan: HoldsPlan
    gateway: Target
    upstream: Target
    watch: Watch
    step: Callable[[], None]

    @property
    def process(self) -> Popen[bytes]:
        """The gateway's process."""
        assert self.gateway.child is not None
        return self.gateway.child.process

    def crowd(self, ready_at: float) -> Crowd:
        """Describe users whose reminders are ready at one instant."""
        due_at = datetime.fromtimestamp(ready_at + DUE_WINDOW_S, UTC)
        text = due_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Crowd(wish(self.gateway.address, text), self.plan.held)


@contextmanager
def holding(plan: HoldsPlan, cores: Cores, step: Callable[[], None]) -> Iterator[HoldsStage]:
    """Start the gateway and its upstream, and stop them afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = Place(Path(directory), cores)
        with upstream(place, REMINDING) as model:
            settings = SETTINGS.format(held=plan.held, store=plan.store)
            settings += HOLDGATE_CONFIG.format(upstream=model.address)
            with holdgate_with(place, settings) as gateway:
                watch = Watch(gateway.pids, model.pids, cores.used)
                yield HoldsStage(plan, gateway, model, watch, step)


def measure_holds(plan: HoldsPlan, cores: Cores) -> tuple[Drained, Woken]:
    """Hold many connections, twice, and say what was seen."""
    allow_descriptors(plan.held + SPARE_FILES)
    progress, steps = Progress(len(STEPS)), iter(STEPS)

    def step() -> None:
        progress.start(next(steps))

    # Collections of our own garbage would look like pauses of the gateway.
    gc.freeze()
    gc.disable()
    try:
        with holding(plan, cores, step) as stage:
            drained = run(drain, stage)
        with holding(plan, cores, step) as stage:
            return drained, run(wake, stage, drained.opened_s)
    finally:
        gc.enable()
        gc.unfreeze()
        progress.close()


def run(act: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run the clients' side of one act."""
    return anyio.run(act, *arguments, backend_options={"use_uvloop": True})


async def drain(stage: HoldsStage) -> Drained:
    """Hold all, look at the gateway while it holds them, and tell it to go."""
    pid = stage.process.pid
    stage.step()
    before = await newcomers(stage)
    idle_bytes = resident_bytes(pid)
    crowd = stage.crowd(time() + FAR_S)
    turnout = crowd.turnout
    async with anyio.create_task_group() as tasks:
        stage.step()
        began = time()
        await crowd.assemble(tasks)
        await held_come_to(stage, stage.plan.held, PATIENCE_S)
        opened_s = time() - began
        stage.step()
        await anyio.sleep(SETTLE_S)
        held_bytes = resident_bytes(pid)
        quiet = await cost_of_quiet(stage)
        stage.step()
        during = await newcomers(stage)
        stage.step()
        signalled = time()
        stage.process.send_signal(signal.SIGTERM)
        await crowd.end(DRAIN_S + PATIENCE_S)
    status = await run_sync(stage.process.wait, DRAIN_S)
    return Drained(
        opened_s=opened_s,
        idle_bytes=idle_bytes,
        held_bytes=held_bytes,
        quiet=quiet,
        before=before,
        during=during,
        ended=len(turnout.ended_at),
        ended_s=latest(turnout.ended_at, signalled),
        exit_s=time() - signalled,
        exit_status=status,
        errors=(*before.errors, *during.errors, *turnout.errors),
    )


async def wake(stage: HoldsStage, opening_s: float) -> Woken:
    """Hold all until one instant, and see them woken."""
    stage.step()
    ready_at = time() + SPARE_S + opening_s * 2
    crowd = stage.crowd(ready_at)
    turnout = crowd.turnout
    async with anyio.create_task_group() as tasks:
        await crowd.assemble(tasks)
        await held_come_to(stage, stage.plan.held, PATIENCE_S)
        stage.step()
        await anyio.sleep(ready_at - time())
        left = await held_come_to(stage, 0, PATIENCE_S)
        left_s = time() - ready_at
        await crowd.end(PATIENCE_S)
    counts = await asked_of(stage.upstream)
    return Woken(
        left=left,
        left_s=left_s,
        ended=len(turnout.ended_at),
        ended_s=latest(turnout.ended_at, ready_at),
        follow_ups=counts.follow_ups,
        most_at_once=counts.most_at_once,
        errors=tuple(turnout.errors),
    )


async def newcomers(stage: HoldsStage) -> Sample:
    """Let new users come, one connection a request, and measure how long they wait."""
    length, address = stage.plan.newcomers, stage.gateway.address
    asked = request(SCENARIOS["first"], length)
    order = Order(address.host, address.port, asked, think_s=2 * NEWCOMERS / NEW_EACH_S)
    job = Job("new", NEWCOMERS, order, length.warm_s, length.measure_s, length.warm_s, stage.watch)
    return await drive(job)


async def cost_of_quiet(stage: HoldsStage) -> Clocks:
    """Measure what the gateway does while nothing happens but heartbeats."""
    tally = Tally()
    before = count(stage.watch, tally)
    await anyio.sleep(stage.plan.quiet_s)
    return count(stage.watch, tally) - before


async def held_come_to(stage: HoldsStage, number: int, limit_s: float) -> int:
    """Wait until so many answers are held, as the gateway counts them; return how many were due."""
    url, deadline = f"{stage.gateway.address.url}/metrics", time() + limit_s
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            told = (await client.get(url)).content
            if number_of(HELD_NOW, told) == number:
                return number_of(WERE_DUE, told)
            if time() > deadline:
                raise ProcessFailed(f"Not {number} were held within {limit_s:.0f} s.")
            await anyio.sleep(LOOK_S)


def number_of(line: re.Pattern[bytes], metrics: bytes) -> int:
    """Find a number among the gateway's own."""
    found = line.search(metrics)
    return int(float(found[1])) if found else 0


async def asked_of(model: Target) -> Counts:
    """Ask the upstream what it was asked."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{model.address.url}/counts")
    return msgspec.json.decode(answer.content, type=Counts)
