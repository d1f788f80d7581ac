"""The script that completes commands in zsh."""

from __future__ import annotations

from gateway.cli.completion.tree import CompletedCommand, CompletedOption, fill, quote

ZSH = """\
#compdef holdgate
# Completions of holdgate for zsh. Put this file into a directory of $fpath as _holdgate, or load it
# after compinit with: source <(holdgate completion zsh)
@FUNCTIONS@

if [ "${funcstack[1]}" = "_holdgate" ]; then
  _holdgate "$@"
else
  compdef _holdgate holdgate
fi
"""
ZSH_LEAF = """\
@NAME@() {
  _arguments -s @SPECS@
}
"""
ZSH_BRANCH = """\
@NAME@() {
  local context state line
  typeset -A opt_args
  _arguments -C @SPECS@ \\
    '1:command:->command' '*::argument:->rest'
  case "$state" in
    command)
      local -a commands=(
@COMMANDS@
      )
      _describe command commands ;;
    rest)
      case "${line[1]}" in
@CALLS@
      esac ;;
  esac
}
"""


def write_zsh(commands: list[CompletedCommand]) -> str:
    """Return the script for zsh."""
    return fill(ZSH, FUNCTIONS="\n".join(map(_zsh_function, commands)).rstrip())


def _zsh_function(command: CompletedCommand) -> str:
    specs = [_zsh_option(option) for option in command.options]
    if command.choices:
        specs.append(quote(f"1:argument:({' '.join(command.choices)})"))
    calls = [
        f"        {name}) {_zsh_name((*command.path, name))} ;;" for name, _ in command.commands
    ]
    described = [
        f"        {quote(name + ':' + text.replace(':', chr(92) + ':'))}"
        for name, text in command.commands
    ]
    return fill(
        ZSH_BRANCH if command.commands else ZSH_LEAF,
        NAME=_zsh_name(command.path),
        SPECS=" \\\n    ".join(specs),
        COMMANDS="\n".join(described),
        CALLS="\n".join(calls),
    )


def _zsh_name(path: tuple[str, ...]) -> str:
    return "_".join(("_holdgate", *path)).replace("-", "_")


def _zsh_option(option: CompletedOption) -> str:
    text = option.help
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    value = f":{option.value}:{_zsh_action(option)}" if option.value else ""
    excluded = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    # A value may follow after a space or after "=".
    sign = "=" if option.value else ""
    return " ".join(quote(f"{excluded}{name}{sign}[{text}]{value}") for name in option.names)


def _zsh_action(option: CompletedOption) -> str:
    if option.is_file:
        return "_files"
    if option.is_directory:
        return "_files -/"
    return f"({' '.join(option.choices)})" if option.choices else " "
