"""What is wrong with a configuration, said so that it can be mended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

LONGEST_QUOTE = 60
# Two swapped letters of three are near (0.67); budgets and agents are not (0.62).
NEAR = 0.65
SHORTEST_BEGINNING = 3

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it is, and one sentence about it."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class ConfigError(Exception):
    """A configuration that cannot be used, with every problem found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class InvalidValue(Exception):
    """A value that does not fit its key; the text says why."""


def quote(text: str) -> str:
    """Write a text as one line, in a form that both TOML and JSON read."""
    clean = text.encode(errors="backslashreplace").decode()
    return msgspec.json.encode(clean).decode().replace("\x7f", "\\u007f")


def quote_short(text: str) -> str:
    """Quote a text somebody gave, cut where it would only tire the reader."""
    return quote(text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…")


def join(where: str, name: str) -> str:
    """Name a key inside a table, the way TOML writes dotted keys."""
    word = name if _BARE.fullmatch(name) else quote_short(name)
    return f"{where}.{word}" if where else word


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that was probably meant, if any is close or begins so."""
    folded = {_fold(candidate): candidate for candidate in candidates}
    given = _fold(word)
    close = get_close_matches(given, folded, n=1, cutoff=NEAR)
    if not close and len(given) >= SHORTEST_BEGINNING:
        close = [name for name in folded if name.startswith(given)]
    return folded[close[0]] if close else None


def hint(word: str, candidates: Iterable[str]) -> str:
    """Return the end of a sentence that suggests what was probably meant, or nothing."""
    meant = nearest(word, candidates)
    return f"; did you mean {meant}?" if meant else ""


def _fold(word: str) -> str:
    return word.casefold().replace("_", "")
