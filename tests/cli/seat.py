"""A person at a real terminal: a pseudo-terminal, what is typed into it, and what is to be seen."""

from __future__ import annotations

import os
import pty
import re
import sys
import tempfile
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

ROOT = Path(__file__).parents[2]
# The pseudo-terminal becomes the one that controls the process, so that Ctrl-C is a signal.
START = (
    "import os, runpy; os.login_tty(0); "
    "runpy.run_module('gateway', run_name='__main__', alter_sys=True)"
)
PATIENCE = 20
CTRL_C, CTRL_D = "\x03", "\x04"
PIECE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Seat:
    """The process, and everything it has written to its terminal."""

    def __init__(self, process: Process, keyboard: int) -> None:
        self.process = process
        self.written = ""
        self._keyboard = keyboard

    @property
    def lines(self) -> list[str]:
        """What stands on the screen now."""
        return drawn(self.written)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._keyboard, text.encode())

    async def prompted(self) -> None:
        """Look until it is the person's turn."""
        while self.lines[-1] != "> ":
            await self._look()

    async def enter(self, line: str) -> None:
        """Say something when asked to, and see it on the screen."""
        await self.prompted()
        self.type(f"{line}\n")
        await self.sees(f"> {line}")

    async def ended(self) -> int:
        """Wait until the process is over."""
        with anyio.fail_after(PATIENCE):
            return await self.process.wait()

    async def sees_end(self) -> None:
        """Look until the process has closed the terminal."""
        with anyio.fail_after(PATIENCE):
            while True:
                await anyio.wait_readable(self._keyboard)
                try:
                    self.written += os.read(self._keyboard, 65536).decode()
                except OSError:
                    return

    async def sees(self, text: str) -> None:
        """Look until a line of the screen ends with this."""
        while not any(line.endswith(text) for line in self.lines):
            await self._look()

    async def reads(self, text: str) -> None:
        """Look until this has been written, even if it is wiped by now."""
        while text not in self.written:
            await self._look()

    async def _look(self) -> None:
        with anyio.fail_after(PATIENCE):
            await anyio.wait_readable(self._keyboard)
        try:
            self.written += os.read(self._keyboard, 65536).decode()
        except OSError:
            pytest.fail(f"The chat ended; the terminal shows:\n{self.written}")


def drawn(written: str) -> list[str]:
    """Draw a screen: text, line ends, a cursor that goes back, and lines wiped from there on."""
    rows: list[str] = [""]
    column = 0
    for number, command, sign in PIECE.findall(written):
        row = rows[-1]
        if command == "K":
            rows[-1] = row[:column]
        elif command == "D":
            column = max(0, column - int(number or 1))
        elif sign == "\b":
            column = max(0, column - 1)
        elif sign == "\x07":
            continue
        elif sign == "\n":
            rows.append(" " * column)
        elif sign == "\r":
            column = 0
        elif sign:
            rows[-1] = row[:column].ljust(column) + sign + row[column + 1 :]
            column += 1
    return rows


@asynccontextmanager
async def seated(*arguments: str, columns: int = 80, **more: str) -> AsyncIterator[Seat]:
    """Start the command line on a terminal of its own."""
    keyboard, screen = pty.openpty()
    termios.tcsetwinsize(screen, (24, columns))
    unset = {"COLUMNS", "LINES"}
    here = {name: value for name, value in os.environ.items() if name not in unset}
    state = tempfile.TemporaryDirectory()
    fixed = {"PYTHONPATH": str(ROOT), "TZ": "UTC", "TERM": "xterm", "XDG_STATE_HOME": state.name}
    environ = {**here, **fixed, **more}
    command = [sys.executable, "-c", START, *arguments]
    try:
        process = await anyio.open_process(
            command, stdin=screen, stdout=screen, stderr=screen, env=environ
        )
    finally:
        os.close(screen)
    try:
        yield Seat(process, keyboard)
    finally:
        os.close(keyboard)
        if process.returncode is None:
            process.kill()
        await process.aclose()
        state.cleanup()
