"""Reads the Dockerfile: its instructions in order, stage by stage."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .conftest import ROOT

DOCKERFILE = ROOT / "Dockerfile"
IGNORE = ROOT / ".dockerignore"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, such as `RUN` and the command after it."""

    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The words of its value; those of the exec form without the brackets."""
        return self.exec_form or shlex.split(self.value)

    @property
    def exec_form(self) -> list[str]:
        """The words of a command that is run without a shell; empty if it is not."""
        found = re.search(r"\[.*\]$", self.value, re.DOTALL)
        return list(json.loads(found[0])) if found else []

    @property
    def settings(self) -> dict[str, str]:
        """What ENV sets."""
        return dict(word.split("=", 1) for word in self.words)


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions from one FROM to the next."""

    base: str
    name: str
    steps: tuple[Instruction, ...]

    def find(self, name: str) -> list[Instruction]:
        """Return all instructions of a name."""
        return [step for step in self.steps if step.name == name]

    def only(self, name: str) -> Instruction:
        """Return the instruction that there is once."""
        (found,) = self.find(name)
        return found

    @property
    def environment(self) -> dict[str, str]:
        """What all ENV together set."""
        return {name: value for step in self.find("ENV") for name, value in step.settings.items()}


def read_stages(text: str) -> list[Stage]:
    """Read all stages of a Dockerfile."""
    stages: list[Stage] = []
    for step in read_instructions(text):
        if step.name == "FROM":
            base, *named = step.words
            stages.append(Stage(base, named[-1] if named else "", ()))
        else:
            last = stages[-1]
            stages[-1] = Stage(last.base, last.name, (*last.steps, step))
    return stages


def read_instructions(text: str) -> Iterator[Instruction]:
    """Read the instructions; a backslash at the end of a line goes on with it."""
    code = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    for line in code.splitlines():
        if line.strip():
            name, _, value = line.strip().partition(" ")
            yield Instruction(name.upper(), value.strip())


def list_context() -> list[Path]:
    """Return what is sent to the builder: .dockerignore names it, and nothing else."""
    rules = [line for line in IGNORE.read_text().splitlines() if line and line[0] != "#"]
    assert rules[0] == "*"
    return [ROOT / rule.removeprefix("!") for rule in rules if rule.startswith("!")]
