"""The commands and options there are, as completions need them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

# What the name of a value says about it; for other names nothing can be offered.
FILE_METAVARS = {"FILE"}
DIRECTORY_METAVARS = {"DIR"}


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """An option: how it is written, what help says of it, and which value follows."""

    names: tuple[str, ...]
    help: str
    value: str
    """How help calls its value; empty for an option without one."""
    choices: tuple[str, ...]

    @property
    def is_file(self) -> bool:
        """Whether its value is a file."""
        return self.value in FILE_METAVARS

    @property
    def is_directory(self) -> bool:
        """Whether its value is a directory."""
        return self.value in DIRECTORY_METAVARS


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command: the words that lead to it, and what may follow them."""

    path: tuple[str, ...]
    options: tuple[OptionSpec, ...]
    commands: tuple[tuple[str, str], ...]
    """The names of the commands below it, each with what help says of it."""
    choices: tuple[str, ...]
    """The values of its argument, if they are known."""

    @property
    def key(self) -> str:
        """Its path as scripts compare it: empty for `holdgate` alone, else ` jobs add`."""
        return "".join(f" {word}" for word in self.path)

    @property
    def words(self) -> tuple[str, ...]:
        """All that may be offered where no value of an option is due."""
        names = (name for option in self.options for name in option.names)
        return (*(name for name, _ in self.commands), *self.choices, *names)


def find_commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[CommandSpec]:
    """Describe a parser and those below it, each before its children."""
    # argparse has no public way to ask for this.
    children: dict[str, argparse.ArgumentParser] = {}
    options, choices = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            children = dict(action.choices)
        elif action.option_strings:
            options.append(_describe_option(action))
        else:
            choices += [str(choice) for choice in action.choices or ()]
    named = tuple((name, child.description or "") for name, child in children.items())
    yield CommandSpec(path, tuple(options), named, tuple(choices))
    for name, child in children.items():
        yield from find_commands(child, (*path, name))


def _describe_option(action: argparse.Action) -> OptionSpec:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.rpartition(".")[2]
    return OptionSpec(
        tuple(action.option_strings),
        action.help or "",
        "" if action.nargs == 0 else metavar,
        tuple(str(choice) for choice in action.choices or ()),
    )


def find_valued_options(
    commands: list[CommandSpec],
) -> Iterator[tuple[str, str, OptionSpec]]:
    """Find each option that has a value: of which command, by which name."""
    for command in commands:
        for option in command.options:
            if option.value:
                yield from ((command.key, name, option) for name in option.names)


def fill_template(template: str, **parts: str) -> str:
    """Put texts into the places of a template, which are written like @THIS@."""
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


def quote_word(text: str) -> str:
    """Write a text as one word for any of the shells."""
    return "'" + text.replace("'", "'\\''") + "'"
