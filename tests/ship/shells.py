"""Shells that have loaded our completions, and are asked what they offer."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, Self

PATIENCE = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9B]?|[\x07\x0e\x0f]")
BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_holdgate 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
PS1='ready>' ; unsetopt prompt_sp beep
{load}
holdgate() {{ print -rl -- "$@" >arguments.new; mv arguments.new arguments }}
print -r 'all is' 'loaded'
"""


class Shell(Protocol):
    """A shell that knows our completions."""

    def complete(self, line: str) -> str:
        """Return the last word of a line after the Tab key, where there is one way to go on."""

    def offer(self, line: str) -> set[str]:
        """Return all words that are offered after a line."""


class Bash:
    """Calls the function that bash would call."""

    def __init__(self, script: Path, home: Path) -> None:
        self._script = script
        self._home = home

    def offer(self, line: str) -> set[str]:
        words = " ".join(shlex.quote(word) for word in split_as_bash(line))
        code = BASH.format(script=shlex.quote(str(self._script)), words=words)
        return set(run(("bash", "--norc", "-c", code), self._home).splitlines()) - {""}

    def complete(self, line: str) -> str:
        (word,) = self.offer(line)
        return word


def split_as_bash(line: str) -> list[str]:
    """Cut a line into words as bash does for completions: an equals sign is a word of its own."""
    return [part for word in line.split(" ") for part in re.split(r"(=)", word) if part or not word]


class Fish:
    """Asks fish by its own command for that."""

    def __init__(self, script: Path, home: Path) -> None:
        self._script = script
        self._home = home

    def offer(self, line: str) -> set[str]:
        code = f"source {shlex.quote(str(self._script))}; complete -C {shlex.quote(line)}"
        output = run(("fish", "--no-config", "-c", code), self._home)
        return {row.partition("\t")[0] for row in output.splitlines()}

    def complete(self, line: str) -> str:
        (word,) = self.offer(line)
        # After --config= the whole word is offered.
        return word.rpartition("=")[2]


class Zsh:
    """Types at a real terminal; `holdgate` is a function there that writes down its arguments."""

    def __init__(self, load: str, home: Path) -> None:
        self._load = load
        self._home = home
        self._screen = ""

    def __enter__(self) -> Self:
        self._terminal, theirs = pty.openpty()
        # High enough for every list, so that zsh does not ask whether to show it.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 160, 0, 0))
        self._process = subprocess.Popen(
            ("zsh", "-f", "-i"),
            cwd=self._home,
            env=environ_for(self._home),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        start = self._home / "start.zsh"
        start.write_text(ZSH.format(load=self._load))
        self._type("source ./start.zsh\n")
        self._read_until("all is loaded")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def complete(self, line: str) -> str:
        written = self._home / "arguments"
        written.unlink(missing_ok=True)
        self._type(f"{line}\t\n")
        self._read_until_true(written.exists)
        return written.read_text().splitlines()[-1].rpartition("=")[2]

    def offer(self, line: str) -> set[str]:
        # zsh shows no list while more keys wait, so the rest is typed once the list has begun.
        self._type(f"{line}\t")
        self._read_until(" -- ")
        # What comes after the list shows that the list is whole.
        os.write(self._terminal, b"\x15print -r that is 'all'\n")
        self._read_until("that is all")
        return set(re.findall(r"(?m)(?:^|\s\s)(-{0,2}[a-z][\w-]*)(?=\s)", self._screen))

    def _type(self, keys: str) -> None:
        self._screen = ""
        os.write(self._terminal, keys.encode())

    def _read_until(self, text: str) -> None:
        self._read_until_true(lambda: text in self._screen)

    def _read_until_true(self, is_there: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_there():
            assert time.monotonic() < end, self._screen
            if select.select([self._terminal], [], [], 0.02)[0]:
                read = os.read(self._terminal, 65536).decode(errors="replace")
                self._screen += ESCAPES.sub("", read).replace("\r", "\n")


def run(command: tuple[str, ...], home: Path) -> str:
    """Run a program at home, and return what it prints."""
    result = subprocess.run(
        command,
        cwd=home,
        env=environ_for(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return result.stdout


def environ_for(home: Path) -> Mapping[str, str]:
    """Return an environment without the settings of whoever runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
