"""The script that completes commands in zsh."""

from __future__ import annotations

from gateway.cli.completion.tree import CommandSpec, OptionSpec, fill_template, quote_word

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


def write_zsh(commands: list[CommandSpec]) -> str:
    """Return the script for zsh."""
    return fill_template(ZSH, FUNCTIONS="\n".join(map(_write_function, commands)).rstrip())


def _write_function(command: CommandSpec) -> str:
    specs = [_write_option(option) for option in command.options]
    if command.choices:
        specs.append(quote_word(f"1:argument:({' '.join(command.choices)})"))
    children = [(name, _name_function((*command.path, name))) for name, _ in command.commands]
    return fill_template(
        ZSH_BRANCH if command.commands else ZSH_LEAF,
        NAME=_name_function(command.path),
        SPECS=" \\\n    ".join(specs),
        COMMANDS="\n".join(f"        {_describe(name, text)}" for name, text in command.commands),
        CALLS="\n".join(f"        {name}) {function} ;;" for name, function in children),
    )


def _describe(name: str, text: str) -> str:
    return quote_word(f"{name}:{_escape(text, ':')}")


def _escape(text: str, signs: str) -> str:
    for sign in f"\\{signs}":
        text = text.replace(sign, f"\\{sign}")
    return text


def _name_function(path: tuple[str, ...]) -> str:
    return "_".join(("_holdgate", *path)).replace("-", "_")


def _write_option(option: OptionSpec) -> str:
    text = _escape(option.help, "[]:")
    value = f":{option.value}:{_write_value(option)}" if option.value else ""
    excluded = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    # A value may follow after a space or after "=".
    sign = "=" if option.value else ""
    return " ".join(quote_word(f"{excluded}{name}{sign}[{text}]{value}") for name in option.names)


def _write_value(option: OptionSpec) -> str:
    if option.is_file:
        return "_files"
    if option.is_directory:
        return "_files -/"
    return f"({' '.join(option.choices)})" if option.choices else " "
