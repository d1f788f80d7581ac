"""The line that a person types: edited and remembered where that is possible, else as it comes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

from gateway.cli.client import say

PROMPT = "> "
MOST_KEPT = 1000
TICK_S = 0.1

ReadLine = Callable[[], str]


def history_file(environ: Mapping[str, str]) -> Path:
    """Return where the lines are kept that somebody has typed."""
    state = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "holdgate" / "chat_history"


@contextmanager
def open_prompt(history: Path | None) -> Iterator[ReadLine]:
    """Yield what returns the next line, or nothing at the end of the input."""
    editor = _find_editor()
    if editor is None:
        yield _read_plain
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        yield EditedLines(editor, history).read
    finally:
        signal.signal(signal.SIGALRM, before)


def _find_editor() -> ModuleType | None:
    """Return what edits lines; only a terminal has one, and some builds of Python have none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        # Importing it may write to the terminal, so only a chat does.
        return import_module("readline")
    except ImportError:
        return None


def _read_plain() -> str:
    # Not input(), which would notice a Ctrl-C that meets its prompt with the next key only.
    print(PROMPT, end="", flush=True)
    return sys.stdin.readline()


class EditedLines:
    """Reads lines with an editor, and keeps the last of them in a file."""

    def __init__(self, editor: ModuleType, history: Path | None) -> None:
        self._editor = editor
        self._history = history
        editor.clear_history()
        editor.set_history_length(MOST_KEPT)
        if history is not None:
            with suppress(OSError):
                editor.read_history_file(history)

    def read(self) -> str:
        """Return the next line, or nothing at the end of the input."""
        known = self._editor.get_current_history_length()
        # A Ctrl-C right before the editor waits for a key would be noticed with the next key only.
        # The alarm interrupts that wait, and then it is noticed.
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            line = input(PROMPT)
        except EOFError:
            return ""
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._history is not None and self._editor.get_current_history_length() > known:
            self._keep(self._history)
        return f"{line}\n"

    def _keep(self, history: Path) -> None:
        try:
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            if hasattr(self._editor, "append_history_file"):
                self._editor.append_history_file(1, history)
            else:
                self._editor.write_history_file(history)
        except OSError as error:
            self._history = None
            say(f"holdgate: what you type is not saved: {error.strerror}.")
