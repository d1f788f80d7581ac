"""What a person sees of an answer in a terminal."""

from __future__ import annotations

import shutil
import threading
import time
from math import ceil
from typing import TextIO

import msgspec

from gateway.cli.client import CONTROLS, say
from gateway.cli.wrapping import WordWrap

WIPE = "\r\x1b[K"
DIM, BRIGHT = "\x1b[2m", "\x1b[0m"


class Note(msgspec.Struct, frozen=True):
    """What the gateway tells people about an answer: its state, and until when it is held."""

    state: str = ""
    until: int | None = None
    now: int | None = None
    why: str = ""


class Screen:
    """What a person sees of one answer: its text, and a countdown while it is held."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._wrap = WordWrap()
        self._at_line_start = True
        self._after_hold = False
        self._countdown: Countdown | None = None
        self._held_until: int | None = None
        self._why = ""

    def say(self, text: str) -> None:
        """Show a piece of the answer; an empty one is a heartbeat, and shows nothing."""
        if not text:
            return
        self._go_on()
        if self._after_hold:
            # The countdown had a line of its own, so one line end has been shown already.
            text, self._after_hold = text.removeprefix("\n"), False
        self._write(CONTROLS.sub("", text) if self._is_terminal else text)

    def note(self, note: Note) -> None:
        """Show that the answer is held, or that it goes on."""
        self._why = note.why or self._why
        if note.state != "holding" or note.until is None:
            self._go_on()
        elif note.until != self._held_until:
            self._hold(note.until, (note.until - (note.now or note.until)) / 1000)

    def leave(self) -> None:
        """Show that the person did not wait for the rest."""
        self._go_on()
        self._write("(left)" if self._at_line_start else " (left)")

    def end(self) -> None:
        """Leave the cursor at the start of a line, and say what cut the answer short."""
        self._go_on()
        if not self._at_line_start:
            self._write("\n")
        if self._why:
            say(f"holdgate: {self._why}")

    def _hold(self, until: int, seconds: float) -> None:
        self._go_on()
        self._held_until = until
        if not self._is_terminal:
            say(f"holding for {ceil(seconds)} s")
            return
        if not self._at_line_start:
            self._write("\n")
            self._after_hold = True
        # Known before it starts: Ctrl-C may come at any instant, and it must be found to be wiped.
        self._countdown = Countdown(self._out, until, seconds)
        self._countdown.start()

    def _go_on(self) -> None:
        self._held_until = None
        if self._countdown is not None:
            self._countdown.wipe()
            self._countdown = None

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            if self._is_terminal:
                text = self._wrap.feed(text, shutil.get_terminal_size().columns)
            self._out.write(text)
            self._out.flush()


class Countdown:
    """A line that counts the seconds of a hold; nobody else may write until it is wiped.

    The gateway's own time says how long; the clock of this machine may be wrong.
    """

    def __init__(self, out: TextIO, until: int, seconds: float) -> None:
        self._out = out
        self._until = time.strftime("%H:%M:%S", time.localtime(until / 1000))
        self._end = time.monotonic() + seconds
        self._over = threading.Event()
        self._drawing = threading.Lock()

    def start(self) -> None:
        """Count in the background, while the answer is waited for."""
        threading.Thread(target=self._count, daemon=True).start()

    def wipe(self) -> None:
        """Stop counting, and leave the line empty."""
        with self._drawing:
            self._over.set()
            self._draw("")

    def _count(self) -> None:
        wait: float | None = 0.0
        while not self._over.wait(wait):
            left = max(0.0, self._end - time.monotonic())
            line = f"holding, {format_span(ceil(left))} until {self._until}; Ctrl-C leaves"
            columns = shutil.get_terminal_size().columns
            with self._drawing:
                if not self._over.is_set():
                    self._draw(f"{DIM}{line[: columns - 1]}{BRIGHT}")
            # Up to the instant when another number is right; at nought, as long as it takes.
            wait = left - (ceil(left) - 1) if left else None

    def _draw(self, line: str) -> None:
        self._out.write(WIPE + line)
        self._out.flush()


def format_span(seconds: int) -> str:
    """Write a span of time as a person reads it."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
