"""The script that completes commands in bash."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.cli.completion.tree import CompletedCommand, CompletedOption, fill, find_valued_options

BASH = """\
# Completions of holdgate for bash. Load them with: source <(holdgate completion bash)
_holdgate() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local command="" word index IFS=$'\\n'
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


def write_bash(commands: list[CompletedCommand]) -> str:
    """Return the script for bash."""
    values = [*_bash_values(commands)]
    words = [
        f'    "{command.key}") COMPREPLY=($(compgen -W "{_lines(command.words)}" -- "$current")) ;;'
        for command in commands
    ]
    return fill(
        BASH,
        COMMANDS=" | ".join(f'"{command.key}"' for command in commands if command.path),
        VALUED=" | ".join(f'"{key} {name}"' for key, name, _ in find_valued_options(commands)),
        VALUES="\n".join(values),
        WORDS="\n".join(words),
    )


def _bash_values(commands: list[CompletedCommand]) -> Iterator[str]:
    """Write what is offered as the value of each option, alike ones together."""
    kinds: dict[str, list[str]] = {}
    for key, name, option in find_valued_options(commands):
        kinds.setdefault(_bash_offer(option), []).append(f'"{key} {name}"')
    for offer, places in kinds.items():
        yield f"    {' | '.join(places)})\n      {offer}return ;;"


def _bash_offer(option: CompletedOption) -> str:
    files = "compopt -o filenames 2>/dev/null\n      "
    if option.is_file:
        return f'{files}COMPREPLY=($(compgen -f -- "$current")); '
    if option.is_directory:
        return f'{files}COMPREPLY=($(compgen -d -- "$current")); '
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{_lines(option.choices)}" -- "$current")); '
    return ""


def _lines(words: tuple[str, ...]) -> str:
    # With IFS as above, compgen takes one word from each line.
    return "\n".join(words)
