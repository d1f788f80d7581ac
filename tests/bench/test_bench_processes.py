"""Children are pinned, their CPU time is read exactly, and they never outlive the block."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bench.processes import Child, Command, ProcessFailed, choose_cores, cpu_ns, family, running

BUSY = "while True: pass"
QUIET = "import signal; print('listening on http://127.0.0.1:1', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {QUIET}"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

Start = Callable[[str], Child]


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def command(code: str, directory: Path) -> Command:
    core = min(os.sched_getaffinity(0))
    return Command("child", (sys.executable, "-c", code), core, directory, {})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda code: stack.enter_context(running(command(code, tmp_path)))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_cpu_time_grows_and_agrees_with_the_kernels_ticks(start: Start) -> None:
    pid = start(BUSY).process.pid
    wait_until(lambda: cpu_ns(pid) > 200_000_000)
    before = cpu_ns(pid)
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    after = cpu_ns(pid)
    told = sum(map(int, ticks)) * TICK_NS
    # User and system time are cut down to whole ticks each.
    assert before - 2 * TICK_NS <= told <= after


def test_an_idle_process_costs_nothing(start: Start) -> None:
    child = start(QUIET)
    child.listening()
    pid = child.process.pid
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
    before = cpu_ns(pid)
    time.sleep(0.05)
    assert cpu_ns(pid) - before < 20_000_000


def test_the_family_has_the_grandchildren(start: Start) -> None:
    child = start(PARENT)
    wait_until(lambda: len(child.pids) == 2)
    assert child.pids[0] == child.process.pid


def test_no_grandchild_outlives_the_block(tmp_path: Path) -> None:
    with running(command(PARENT, tmp_path)) as child:
        wait_until(lambda: len(child.pids) == 2)
        grandchild = child.pids[1]
    wait_until(lambda: not is_alive(grandchild))


def test_a_child_runs_on_its_core_and_ours_are_untouched(start: Start) -> None:
    before = os.sched_getaffinity(0)
    child = start(QUIET)
    assert os.sched_getaffinity(child.process.pid) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_an_address_is_read_from_what_it_says(start: Start) -> None:
    assert start(QUIET).listening().url == "http://127.0.0.1:1"


def test_a_child_that_fails_to_start_tells_why(start: Start) -> None:
    child = start("raise SystemExit('no such upstream')")
    with pytest.raises(ProcessFailed, match=r"ended with 1.\n  no such upstream"):
        child.listening()


@pytest.mark.parametrize("leave", [KeyboardInterrupt, SystemExit, ValueError])
def test_no_child_outlives_its_block(tmp_path: Path, leave: type[BaseException]) -> None:
    with suppress(leave), running(command(QUIET, tmp_path)) as child:
        child.listening()
        raise leave
    assert child.process.returncode == -signal.SIGTERM


def test_a_stubborn_family_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.processes.STOP_S", 0.1)
    with running(command(STUBBORN, tmp_path)) as child:
        child.listening()
        pids = family(child.process.pid)
    assert child.process.returncode == -signal.SIGKILL
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize(
    "allowed, load, gateway", [((0, 1), 0, 1), ((3, 1, 2), 1, 3), ((0,), 0, 0)]
)
def test_cores(allowed: tuple[int, ...], load: int, gateway: int) -> None:
    cores = choose_cores(allowed)
    assert (cores.load, cores.gateway) == (load, gateway)
    assert cores.shared is (len(allowed) == 1)
