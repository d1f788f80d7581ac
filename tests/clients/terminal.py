"""A program in a pseudo-terminal, for agents that are used by a person."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROWS, COLUMNS = 40, 120
ENDING = 10.0


class Screen:
    """What a program has written to its terminal so far."""

    def __init__(self) -> None:
        self.bytes = b""

    def read_all(self, descriptor: int) -> None:
        """Read until the program has closed its terminal."""
        with suppress(OSError):
            while data := os.read(descriptor, 65536):
                self.bytes += data


@contextmanager
def in_terminal(
    arguments: Sequence[str], environment: Mapping[str, str], directory: Path
) -> Iterator[Screen]:
    """Run a program in a terminal of its own; it is ended after the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = Screen()
    with subprocess.Popen(
        arguments,
        cwd=directory,
        env={**environment, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        reader = threading.Thread(target=screen.read_all, args=(ours,))
        reader.start()
        try:
            yield screen
        finally:
            _end(process)
            reader.join(ENDING)
            os.close(ours)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
