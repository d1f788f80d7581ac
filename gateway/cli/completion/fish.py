"""The script that completes commands in fish."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.cli.completion.tree import (
    CompletedCommand,
    CompletedOption,
    fill,
    find_valued_options,
    quote,
)

FISH = """\
# Completions of holdgate for fish. Load them with: holdgate completion fish | source
function __holdgate_at
    set -l found ""
    set -l is_value 0
    for word in (commandline -opc)[2..-1]
        if test $is_value = 1
            set is_value 0
            continue
        end
        switch "$found $word"
            case @COMMANDS@
                set found "$found $word"
            case @VALUED@
                set is_value 1
        end
    end
    test "$found" = "$argv[1]"
end
complete -c holdgate -f
@OFFERS@
"""


def write_fish(commands: list[CompletedCommand]) -> str:
    """Return the script for fish."""
    return fill(
        FISH,
        COMMANDS=" ".join(quote(command.key) for command in commands if command.path),
        VALUED=" ".join(quote(f"{key} {name}") for key, name, _ in find_valued_options(commands)),
        OFFERS="\n".join(line for command in commands for line in _fish_offers(command)),
    )


def _fish_offers(command: CompletedCommand) -> Iterator[str]:
    begin = f"complete -c holdgate -n {quote(f'__holdgate_at {chr(34)}{command.key}{chr(34)}')}"
    for name, text in command.commands:
        yield f"{begin} -a {name} -d {quote(text)}"
    if command.choices:
        yield f"{begin} -a {quote(' '.join(command.choices))}"
    for option in command.options:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        )
        yield f"{begin} {names}{_fish_value(option)} -d {quote(option.help)}"


def _fish_value(option: CompletedOption) -> str:
    if option.is_file:
        return " -r -F"
    if option.is_directory:
        return " -x -a '(__fish_complete_directories)'"
    if option.choices:
        return f" -x -a {quote(' '.join(option.choices))}"
    return " -x" if option.value else ""
