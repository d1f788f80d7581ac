"""The helper process: takes a function and its arguments, answers with what came of it."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from gateway.errors import BodyTooLarge, HoldgateError
from gateway.offload.frames import read_frame, write_frame

# The gateway itself goes first where there is only one core.
NICE = 5
MEMORY = 2 * 1024 * 1024 * 1024
# A helper that grew beyond this leaves, and its memory with it.
RETIRE_ABOVE = 300 * 1024 * 1024
TOO_COMPLEX = "Reading the body takes too much memory; send fewer or larger parts."


class WorkFailed(Exception):
    """A fault of ours in the helper process; where, but nothing of what it was working on."""


def perform(work: Callable[[], Any]) -> tuple[bool, Any]:
    """Do the work; return whether it went well, and its result or what to raise."""
    try:
        return True, work()
    except HoldgateError as error:
        return False, error
    except MemoryError:
        return False, BodyTooLarge(TOO_COMPLEX)
    except Exception as error:  # noqa: BLE001 - an outer loop: the gateway logs it
        where = "".join(traceback.format_tb(error.__traceback__))
        return False, WorkFailed(f"{type(error).__name__}\n{where}")


def answer(data: bytearray) -> bytes:
    """Do the work that was sent; return the answer to send back."""
    try:
        return pickle.dumps(perform(pickle.loads(data)), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps((False, BodyTooLarge(TOO_COMPLEX)))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Do one piece of work after the other until the gateway leaves."""
    while True:
        try:
            data, _ = read_frame(requests)
        except EOFError:
            return
        reply = answer(data)
        del data
        grown = memory_in_use() - len(reply) > RETIRE_ABOVE
        write_frame(answers, reply, last=grown)
        del reply
        if grown:
            return
        gc.collect()


def memory_in_use() -> int:
    """Return how many bytes this process has in memory, as far as the system tells."""
    # Not `ru_maxrss`: a process has that of its parent at first.
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def main() -> None:
    """Serve the gateway that started this process."""
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    # What a library prints must not be read as an answer.
    os.dup2(2, 1)
    os.nice(NICE)
    # A service manager may signal all processes of a service. The gateway drains then, with the
    # work that is under way; a helper ends when the gateway closes its pipe, or dies.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # A large body is millions of objects and no cycle: looking for one would take most of the time.
    gc.disable()
    try:
        serve(cast(BinaryIO, requests), cast(BinaryIO, answers))
    except BrokenPipeError:
        return
