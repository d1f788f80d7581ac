"""Starts processes on a core of their own, reads their CPU time, and always ends them."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_S = 20.0
STOP_S = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)
LISTENING = re.compile(r"listening on http://([\d.]+):(\d+)")

# Low bits of a CPU clock's number that mean: the whole process, exact (see clock_getcpuclockid).
CPU_CLOCK = 2


class ProcessFailed(Exception):
    """A process of the bench did not start, or ended too early."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which core carries the load and the upstream, and which the measured gateway."""

    load: int
    gateway: int

    @property
    def used(self) -> tuple[int, ...]:
        """Both of them, or the only one."""
        return tuple({self.load, self.gateway})

    @property
    def shared(self) -> bool:
        """Whether there is only one core for both."""
        return self.load == self.gateway


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, on which core, and where its output goes."""

    name: str
    words: Sequence[str]
    core: int
    directory: Path
    environment: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"


class Child:
    """A running process that the bench started."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self.process = process

    def __repr__(self) -> str:
        return f"<Child {self.command.name} {self.process.pid}>"

    @property
    def pids(self) -> tuple[int, ...]:
        """The process and all its descendants."""
        return family(self.process.pid)

    def listening(self) -> Address:
        """Wait until it has said where it listens."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if said := LISTENING.search(self.command.log.read_text(errors="replace")):
                return Address(said[1], int(said[2]))
            self.check()
            time.sleep(0.01)
        raise ProcessFailed(f"{self.command.name} did not start in {START_S:.0f} s.{self._said()}")

    def check(self) -> None:
        """Raise when it has ended."""
        if (code := self.process.poll()) is not None:
            raise ProcessFailed(f"{self.command.name} ended with {code}.{self._said()}")

    def stop(self) -> None:
        """Ask it to end, and end it when it does not."""
        if self.process.poll() is None:
            self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        # Whatever it started is in its group, and must not outlive it either.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _said(self) -> str:
        last = self.command.log.read_text(errors="replace").splitlines()[-25:]
        return "".join(f"\n  {line}" for line in last)


@contextmanager
def running(command: Command) -> Iterator[Child]:
    """Start a process, and stop it when the block is left for whatever reason."""
    with ExitStack() as stack:
        with signals_waiting():
            child = Child(command, start(command))
            stack.callback(child.stop)
        yield child


def start(command: Command) -> subprocess.Popen[bytes]:
    """Start a process on its core; Ctrl-C reaches the bench alone, which then ends its children."""
    with command.log.open("wb") as log, on_core(command.core):
        return subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **command.environment},
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING),
        )


@contextmanager
def signals_waiting() -> Iterator[None]:
    """Let Ctrl-C wait while a process is born: nobody would know yet that it is to be ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Run the block, and let what it starts be born, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def choose_cores(allowed: Sequence[int]) -> Cores:
    """Give the load the first core and the gateway the last one."""
    return Cores(load=min(allowed), gateway=max(allowed))


def cpu_ns(pid: int) -> int:
    """Return the CPU time a process has used, ended threads included."""
    return time.clock_gettime_ns((~pid << 3) | CPU_CLOCK)


def resident_bytes(pid: int) -> int:
    """Return how much memory a process has in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def allow_descriptors(count: int) -> None:
    """Let this process and those it starts have so many files open, or say why that cannot be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise ProcessFailed(
            f"{count} open files are needed, and {hard} are allowed at most; raise the limit "
            f"(ulimit -Hn, or LimitNOFILE of the service) or hold fewer."
        )
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def family(pid: int) -> tuple[int, ...]:
    """Return a process and its descendants."""
    found = [pid]
    for parent in found:
        for thread in Path(f"/proc/{parent}/task").iterdir():
            # A thread may end while it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                found.extend(map(int, (thread / "children").read_text().split()))
    return tuple(found)


def core_busy_ns(core: int) -> int:
    """Return how long a core has been busy, whoever used it."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _wait, irq, softirq, *_ = map(int, ticks)
            busy = user + nice + system + irq + softirq
            return busy * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    raise ProcessFailed(f"There is no core {core}.")
