"""The script that completes commands in bash."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.cli.completion.tree import CommandSpec, OptionSpec, fill_template, find_valued_options

BASH = """\
# Completions of holdgate for bash. Load them with: source <(holdgate completion bash)
_holdgate() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local command="" word index
  # bash makes three words of --config=FILE.
  if [ "$current" = "=" ]; then
    current=""
  elif [ "$previous" = "=" ]; then
    previous="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="${COMP_WORDS[index]}"
    case "$command $word" in
      @COMMANDS@) command="$command $word" ;;
      @VALUED@)
        [ "${COMP_WORDS[index+1]}" = "=" ] && index=$((index + 1))
        index=$((index + 1)) ;;
    esac
  done
  COMPREPLY=()
  case "$command $previous" in
@VALUES@
  esac
  case "$command" in
@WORDS@
  esac
}
complete -F _holdgate holdgate
"""


# File names may hold spaces, so only the end of a line ends one.
FILES = """\
local IFS=$'\\n'
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen @KIND@ -- "$current"))
      """


def write_bash(commands: list[CommandSpec]) -> str:
    """Return the script for bash."""
    valued = (f'"{key} {name}"' for key, name, _ in find_valued_options(commands))
    words = (f'    "{command.key}") {_offer_words(command.words)} ;;' for command in commands)
    return fill_template(
        BASH,
        COMMANDS=" | ".join(f'"{command.key}"' for command in commands if command.path),
        VALUED=" | ".join(valued),
        VALUES="\n".join(_write_values(commands)),
        WORDS="\n".join(words),
    )


def _write_values(commands: list[CommandSpec]) -> Iterator[str]:
    """Write what is offered as the value of each option, alike ones together."""
    places: dict[str, list[str]] = {}
    for key, name, option in find_valued_options(commands):
        places.setdefault(_offer_value(option), []).append(f'"{key} {name}"')
    for offer, names in places.items():
        yield f"    {' | '.join(names)})\n      {offer}return ;;"


def _offer_value(option: OptionSpec) -> str:
    if option.is_file:
        return fill_template(FILES, KIND="-f")
    if option.is_directory:
        return fill_template(FILES, KIND="-d")
    if option.choices:
        return f"{_offer_words(option.choices)}\n      "
    return ""


def _offer_words(words: tuple[str, ...]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'
