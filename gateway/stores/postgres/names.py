"""How statements name what is in the schema of the gateway."""

from __future__ import annotations

import re

PLACE = re.compile(r"@(?=[a-z_])")
LONGEST_NAME = 63


class StatementNames:
    """Puts the schema in the place of `@` before a name; nothing relies on the search path."""

    def __init__(self, schema: str) -> None:
        self.schema = quote(schema)
        self.channel = quote(f"{schema}_wake")
        self._translated: dict[str, str] = {}

    def translate(self, statement: str) -> str:
        """Return a statement with the schema in its place; statements are few and stay the same."""
        found = self._translated.get(statement)
        if found is None:
            found = PLACE.sub(lambda _: f"{self.schema}.", statement)
            self._translated[statement] = found
        return found


def quote(name: str) -> str:
    """Return a name as PostgreSQL reads it, whatever is in it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
