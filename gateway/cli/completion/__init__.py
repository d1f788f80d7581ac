"""Completions for bash, zsh and fish, written from the commands and options there are.

A script follows the words typed so far from command to command (`jobs`, then `jobs add`) and passes
over the values of options. So it knows which command is meant, and offers its parts.
"""

from __future__ import annotations

import argparse

from gateway.cli.completion.bash import write_bash
from gateway.cli.completion.fish import write_fish
from gateway.cli.completion.tree import find_commands
from gateway.cli.completion.zsh import write_zsh

__all__ = ["SHELLS", "write_completion"]

SHELLS = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}


def write_completion(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for a shell."""
    return SHELLS[shell](list(find_commands(parser)))
