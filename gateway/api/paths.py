"""Names within paths. A session may be called anything, so its name may hold any character."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class Anything(Convertor[str]):
    """A part of a path that may hold slashes and line ends as well."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Take it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Write it as it is."""
        return value


# The library knows convertors by their names alone, in a table of its own.
register_url_convertor("anything", Anything())

SESSION = "/api/sessions/{name:anything}"
"""The path of a session."""
MODEL = "/v1/models/{name:anything}"
"""The path of a model."""
