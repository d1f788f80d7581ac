"""The load generator: a process that drives users and reads the clocks around the steady part."""

from __future__ import annotations

import asyncio
import gc
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter, process_time_ns

import anyio
import msgspec

from bench.processes import core_busy_ns, cpu_ns
from bench.statistics import percentile
from bench.users import USERS, Order, Tally, User

DRAIN_S = 15.0
DISTURBED = 0.1
ERRORS_TOLD = 20


@dataclass(frozen=True, slots=True)
class Watch:
    """Whose CPU time is read besides the load's own, and which cores are to be theirs alone."""

    gateway: tuple[int, ...] = ()
    upstream: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One load: who asks what of whom, how many of them, and for how long."""

    user: str
    users: int
    order: Order
    warm_s: float
    measure_s: float
    spread_s: float
    watch: Watch


@dataclass(frozen=True, slots=True)
class Counts:
    """What was seen, and the CPU time used, up to one moment or between two."""

    seconds: float = 0.0
    requests: int = 0
    events: int = 0
    reads: int = 0
    left: int = 0
    gateway_ns: int = 0
    upstream_ns: int = 0
    load_ns: int = 0
    cores_ns: int = 0

    @property
    def others_share(self) -> float:
        """How much of a core was taken by processes outside the bench."""
        ours_ns = self.gateway_ns + self.upstream_ns + self.load_ns
        return max(0, self.cores_ns - ours_ns) / 1e9 / self.seconds

    def __sub__(self, other: Counts) -> Counts:
        pairs = ((f.name, getattr(self, f.name) - getattr(other, f.name)) for f in fields(self))
        return Counts(**dict(pairs))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one load showed in its steady part."""

    counts: Counts
    first_ms: dict[str, float]
    gap_ms: dict[str, float]
    error_count: int = 0
    errors: tuple[str, ...] = ()


async def drive(job: Job) -> Sample:
    """Let all users ask, and measure between the warm-up and the end."""
    tally = Tally()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: tally.errors.append(f"the load itself failed: {context}")
    )
    unfinished = {USERS[job.user](personal(job.order, n), tally) for n in range(job.users)}

    async def live(user: User, delay_s: float) -> None:
        await anyio.sleep(delay_s)
        await user.run()
        unfinished.remove(user)

    async with anyio.create_task_group() as users:
        for n, user in enumerate(tuple(unfinished)):
            users.start_soon(live, user, n * job.spread_s / job.users)
        counts = await measure(job, tally)
        tally.stopping = True
        users.cancel_scope.deadline = anyio.current_time() + DRAIN_S
    tally.errors.extend("an answer never ended" for _ in unfinished)
    return summarise(counts, tally)


async def measure(job: Job, tally: Tally) -> Counts:
    """Wait for the warm-up to pass, then count during the steady part."""
    await anyio.sleep(job.warm_s)
    tally.measuring = True
    before = count(job.watch, tally)
    await anyio.sleep(job.measure_s)
    after = count(job.watch, tally)
    tally.measuring = False
    return after - before


def count(watch: Watch, tally: Tally) -> Counts:
    """Read all counters and clocks now."""
    return Counts(
        seconds=perf_counter(),
        requests=tally.requests,
        events=tally.events,
        reads=tally.reads,
        left=tally.left,
        gateway_ns=sum(map(cpu_ns, watch.gateway)),
        upstream_ns=sum(map(cpu_ns, watch.upstream)),
        load_ns=process_time_ns(),
        cores_ns=sum(map(core_busy_ns, watch.cores)),
    )


def personal(order: Order, number: int) -> Order:
    """Give each user a session and a rhythm of its own."""
    head, gap, body = order.request.partition(b"\r\n\r\n")
    session = b"\r\nx-session-id: bench-%d" % number
    return replace(order, request=head + session + gap + body, seed=number)


def summarise(counts: Counts, tally: Tally) -> Sample:
    """Put counts, times and errors of one load together."""
    return Sample(
        counts=counts,
        first_ms=spread(tally.first_s),
        gap_ms=spread(tally.gaps_s),
        error_count=len(tally.errors),
        errors=tuple(tally.errors[:ERRORS_TOLD]),
    )


def spread(seconds: list[float]) -> dict[str, float]:
    """Return median, 95th and 99th percentile in milliseconds, or nothing of nothing."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    return {f"p{share}": percentile(ordered, share) * 1000 for share in (50, 95, 99)}


def main(job_file: str, sample_file: str) -> None:
    """Read a job from one file, do it, and write what it showed to the other."""
    job = msgspec.json.decode(Path(job_file).read_bytes(), type=Job)
    # Collections of the load's own garbage would look like pauses of the gateway.
    gc.freeze()
    gc.disable()
    sample = anyio.run(drive, job, backend_options={"use_uvloop": True})
    Path(sample_file).write_bytes(msgspec.json.encode(sample))


if __name__ == "__main__":
    main(*sys.argv[1:])
