"""Completions really complete, in each shell there are some for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.cli.completion import SHELLS, write_completion
from gateway.cli.completion.tree import CommandSpec, find_commands
from gateway.cli.main import build_parser

from .shells import Bash, Fish, Shell, Zsh

COMMANDS = list(find_commands(build_parser()))
# The two ways to load a script into zsh.
LOAD_SCRIPT = "autoload -Uz compinit && compinit -u -D; source {}"
LOAD_FUNCTION = "fpath=({} $fpath); autoload -Uz compinit && compinit -u -D"
MISSING = [name for name in SHELLS if not shutil.which(name)]


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Shell]]:
    """All shells that are installed, each in a directory with a few files."""
    home = tmp_path_factory.mktemp("home")
    home.joinpath("my gateway.toml").touch()
    home.joinpath("holdgate.toml").touch()
    home.joinpath("state").mkdir()
    scripts = {name: home / f"script.{name}" for name in SHELLS}
    for name, file in scripts.items():
        file.write_text(write_completion(name, build_parser()))
    with ExitStack() as stack:
        found: dict[str, Shell] = {"bash": Bash(scripts["bash"], home)}
        if "zsh" not in MISSING:
            found["zsh"] = stack.enter_context(Zsh(LOAD_SCRIPT.format(scripts["zsh"]), home))
        if "fish" not in MISSING:
            found["fish"] = Fish(scripts["fish"], home)
        yield found


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, shells: dict[str, Shell]) -> Shell:
    """One shell after the other."""
    if request.param in MISSING:
        pytest.fail(f"This test needs {request.param}, which is not installed.", pytrace=False)
    return shells[request.param]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("holdgate ser", "serve"),
        ("holdgate demo", "demo-upstream"),
        ("holdgate --vers", "--version"),
        ("holdgate serve --sess", "--session-dir"),
        ("holdgate serve --port 0 --log-format j", "json"),
        ("holdgate serve --config hold", "holdgate.toml"),
        ("holdgate serve --config=hold", "holdgate.toml"),
        ("holdgate jobs upd", "update"),
        ("holdgate usage --gro", "--group-by"),
        ("holdgate jobs add --ev", "--every"),
        ("holdgate jobs update --no-is", "--no-isolated"),
        # The value of an option is no command, even if it is called like one.
        ("holdgate chat --session jobs --mod", "--model"),
        ("holdgate chat --url=jobs --mod", "--model"),
        ("holdgate completion z", "zsh"),
    ],
)
def test_a_word_is_completed(shell: Shell, line: str, word: str) -> None:
    assert shell.complete(line) == word


def test_a_directory_is_completed_and_files_are_not_offered(shell: Shell) -> None:
    assert shell.complete("holdgate serve --session-dir s").rstrip("/") == "state"


def test_a_file_name_with_a_space_is_one_word(shells: dict[str, Shell]) -> None:
    assert shells["bash"].complete("holdgate check --config my") == "my gateway.toml"


def test_zsh_finds_the_script_as_a_function(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path.joinpath("_holdgate").write_text(write_completion("zsh", build_parser()))
    with Zsh(LOAD_FUNCTION.format(tmp_path), tmp_path_factory.mktemp("home")) as zsh:
        # The first time the file is loaded, the second time the function is there.
        assert zsh.complete("holdgate ser") == "serve"
        assert zsh.complete("holdgate jobs add --ev") == "--every"


def test_the_commands_are_offered(shell: Shell) -> None:
    names = {name for name, _ in COMMANDS[0].commands}
    assert names <= shell.offer("holdgate ")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(("holdgate", *c.path)))
def test_every_option_is_offered_and_no_other(
    shells: dict[str, Shell], command: CommandSpec
) -> None:
    line = " ".join(("holdgate", *command.path, "--"))
    assert shells["bash"].offer(line) == long_options(command)


@pytest.mark.parametrize("path", [("serve",), ("jobs", "add")], ids=" ".join)
def test_other_shells_offer_the_same(shell: Shell, path: tuple[str, ...]) -> None:
    (command,) = (one for one in COMMANDS if one.path == path)
    assert shell.offer(" ".join(("holdgate", *path, "--"))) >= long_options(command)


def long_options(command: CommandSpec) -> set[str]:
    return {n for option in command.options for n in option.names if n.startswith("--")}
