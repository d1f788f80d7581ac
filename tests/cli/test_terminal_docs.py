"""The page about the command line names every command and option there is, and no others."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from gateway.cli.main import build_parser

PAGE = Path(__file__).parents[2].joinpath("docs/command-line.md").read_text()


def test_every_option_is_on_the_page() -> None:
    there = {*options(build_parser())} - {"--help", "--version"}
    assert there - named() == set()
    assert named() - there == {"--help"}


def test_every_option_is_explained_by_help() -> None:
    mute = [
        f"{one.prog} {action.option_strings or action.dest}"
        for one in parsers(build_parser())
        for action in one._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert mute == []
    assert [one.prog for one in parsers(build_parser()) if not one.description] == []


def test_every_command_and_action_is_on_the_page() -> None:
    names = [name for parser in parsers(build_parser()) for name in choices(parser)]
    assert [
        name for name in names if f"holdgate {name}`" not in PAGE and f"`{name}" not in PAGE
    ] == []


def named() -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", PAGE))


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for one in parsers(parser):
        for action in one._actions:
            yield from (option for option in action.option_strings if option.startswith("--"))


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for inner in choices(parser).values():
        yield from parsers(inner)


def choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}
