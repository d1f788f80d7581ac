"""The script that completes commands in fish."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.cli.completion.tree import (
    CommandSpec,
    OptionSpec,
    fill_template,
    find_valued_options,
    quote_word,
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


def write_fish(commands: list[CommandSpec]) -> str:
    """Return the script for fish."""
    valued = (quote_word(f"{key} {name}") for key, name, _ in find_valued_options(commands))
    return fill_template(
        FISH,
        COMMANDS=" ".join(quote_word(command.key) for command in commands if command.path),
        VALUED=" ".join(valued),
        OFFERS="\n".join(line for command in commands for line in _write_offers(command)),
    )


def _write_offers(command: CommandSpec) -> Iterator[str]:
    condition = f'__holdgate_at "{command.key}"'
    begin = f"complete -c holdgate -n {quote_word(condition)}"
    for name, text in command.commands:
        yield f"{begin} -a {name} -d {quote_word(text)}"
    if command.choices:
        yield f"{begin} -a {quote_word(' '.join(command.choices))}"
    for option in command.options:
        names = " ".join(_write_name(name) for name in option.names)
        yield f"{begin} {names}{_write_value(option)} -d {quote_word(option.help)}"


def _write_name(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _write_value(option: OptionSpec) -> str:
    if option.is_file:
        return " -r -F"
    if option.is_directory:
        return " -x -a '(__fish_complete_directories)'"
    if option.choices:
        return f" -x -a {quote_word(' '.join(option.choices))}"
    return " -x" if option.value else ""
