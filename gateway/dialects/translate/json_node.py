"""Reading a request member by member: what is not as it should be is named by where it stands."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.errors import BadRequest

_object = msgspec.json.Decoder(dict[str, Any])


class JsonNode(msgspec.Struct, frozen=True, gc=False):
    """A JSON object of a request, and where it stands."""

    members: dict[str, Any]
    path: str = ""

    def place(self, name: str) -> str:
        """Return where a member stands."""
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str) -> str:
        """Return a text; empty when it is absent or null."""
        return self._read(name, str, "a string") or ""

    def require(self, name: str) -> str:
        """Return a text that must not be absent or empty."""
        text = self.text(name)
        if not text:
            place = self.place(name)
            raise BadRequest(f"`{place}` is missing.", param=place)
        return text

    def flag(self, name: str) -> bool | None:
        """Return a truth; None when it is absent or null."""
        flag: bool | None = self._read(name, bool, "true or false")
        return flag

    def number(self, name: str) -> float | None:
        """Return a number; None when it is absent or null."""
        number: float | None = self._read(name, (int, float), "a number")
        if isinstance(number, bool):
            raise self.invalid_member(name, "a number")
        return number

    def whole(self, name: str) -> int | None:
        """Return a whole number; None when it is absent or null."""
        value = self.number(name)
        if value is not None and value != int(value):
            raise self.invalid_member(name, "a whole number")
        return None if value is None else int(value)

    def node(self, name: str) -> JsonNode | None:
        """Return an object; None when it is absent or null."""
        members = self._read(name, dict, "an object")
        return None if members is None else JsonNode(members, self.place(name))

    def inner(self, name: str) -> JsonNode:
        """Return an object, an empty one when it is absent or null."""
        return self.node(name) or JsonNode({}, self.place(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; none when it is absent or null."""
        found = self._read(name, list, "a list of strings") or []
        if not all(isinstance(item, str) for item in found):
            raise self.invalid_member(name, "a list of strings")
        return tuple(found)

    def nodes(self, name: str) -> list[JsonNode]:
        """Return the objects of a list; none when it is absent or null."""
        items = self._read(name, list, "a list") or []
        return [self._item(name, at, item) for at, item in enumerate(items)]

    def content(self, name: str) -> str | list[JsonNode]:
        """Return a text, or the objects of a list."""
        value = self.members.get(name)
        return value if isinstance(value, str) else self.nodes(name)

    def invalid_member(self, name: str, expected: str) -> BadRequest:
        """Say what a member should have been."""
        place = self.place(name)
        return BadRequest(f"`{place}` must be {expected}.", param=place)

    def _item(self, name: str, at: int, item: object) -> JsonNode:
        if not isinstance(item, dict):
            raise self.invalid_member(f"{name}[{at}]", "an object")
        return JsonNode(item, f"{self.place(name)}[{at}]")

    def _read(self, name: str, kind: Any, expected: str) -> Any:
        value = self.members.get(name)
        if value is not None and not isinstance(value, kind):
            raise self.invalid_member(name, expected)
        return value


def parse_body(body: bytes) -> JsonNode:
    """Read a body, or raise `BadRequest`."""
    try:
        return JsonNode(_object.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is not a JSON object we can read: {error}.") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.") from None


def untranslatable(what: str, place: str) -> BadRequest:
    """Say that something a user gave cannot be carried to the upstream."""
    return BadRequest(f"{what} at `{place}` cannot be told to this model's upstream.", param=place)
