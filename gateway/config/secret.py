"""Values that must not be printed: secrets, and URLs that may hold one."""

from __future__ import annotations

import re

MASK = "***"

_USERINFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)
_QUERY = re.compile(r"[?#].*", re.DOTALL)


class Secret:
    """A text that shows itself only when asked by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __repr__(self) -> str:
        return f"Secret({MASK})"


class Url(str):
    """A URL: a plain string to use, but shown without its user, password and query."""

    __slots__ = ()

    @property
    def masked(self) -> str:
        """The URL as it may be printed."""
        bare = _USERINFO.sub(rf"\g<1>{MASK}@", self)
        return _QUERY.sub(lambda found: found[0][0] + MASK, bare)

    def __repr__(self) -> str:
        return repr(self.masked)
