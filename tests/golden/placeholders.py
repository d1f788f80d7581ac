"""What differs from run to run, replaced by names that are numbered as they appear.

Equal values get equal names, so that a record still shows that two ids are one. The clock of a
story stands still until the story moves it: times it shows are no chance, and stay as they are.
Only times of the machine's own clock are replaced.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from itertools import count

from gateway.version import __version__

START = 1_900_000_000_000
"""When every story begins, far from the machine's own time: 2030-03-17T17:46:40.000Z."""
_AGO = 3_600_000

_PATTERNS = (
    ("id", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    # A digest of what a story says is no chance.
    (
        "id",
        r"(?<![0-9a-zA-Z])(?<!\"fingerprint\":\")(?<!\"setter\":\")[0-9a-f]{16,}(?![0-9a-zA-Z])",
    ),
    ("time", r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"),
    ("time", r"\b1\d{12}\b"),
    ("time", r"(?<=\"created\":)1\d{9}\b|(?<=_at\":)1\d{9}\b"),
    ("port", r"(?<=127\.0\.0\.1:)\d+"),
    ("date", r"(?<=date: )\w{3}, .* GMT"),
    ("duration", r"(?<=\"first_ms\":)[\d.]+|(?<=\"ms\":)[\d.]+|(?<=\"durationMs\":)[\d.]+"),
)
# Equal ones are equal by chance.
_UNNUMBERED = ("time", "date", "duration")


class Placeholders:
    """Names for what differs."""

    def __init__(self, **known: str) -> None:
        self._known = {value: f"<{name}>" for name, value in known.items()}
        self._names: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, count[int]] = {}

    def put(self, text: str) -> str:
        """Return a text with names for all that differs."""
        text = text.replace(f"holdgate/{__version__}", "holdgate/<version>")
        for value, name in self._known.items():
            text = text.replace(value, name)
        whole = "|".join(f"(?P<p{at}>{pattern})" for at, (_, pattern) in enumerate(_PATTERNS))
        return re.sub(whole, self._name, text)

    def _name(self, match: re.Match[str]) -> str:
        assert match.lastgroup is not None
        kind, found = _PATTERNS[int(match.lastgroup[1:])][0], match[0]
        if kind == "time" and abs(_moment(found) - time.time() * 1000) > _AGO:
            return found
        if kind in _UNNUMBERED:
            return f"<{kind}>"
        if (kind, found) not in self._names:
            number = next(self._numbers.setdefault(kind, count(1)))
            self._names[kind, found] = f"<{kind} {number}>"
        return self._names[kind, found]


def _moment(text: str) -> float:
    """Read a time in milliseconds, however it is written."""
    if "T" in text:
        return datetime.fromisoformat(text).timestamp() * 1000
    return float(text) * (1 if len(text) == 13 else 1000)
