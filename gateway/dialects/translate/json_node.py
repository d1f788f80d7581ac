"""Reading a request member by member, and naming what its translation leaves out.

What is not as it should be is named by where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
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


MOST_LOSSES = 50
LONGEST_LOSS = 100
# Members of a request that all dialects have, and those that OpenAI's two have beside them.
SHARED_MEMBERS = frozenset(
    {"model", "stream", "tools", "tool_choice", "temperature", "top_p", "metadata"}
)
OPENAI_MEMBERS = SHARED_MEMBERS | {"parallel_tool_calls", "user"}


class Losses:
    """Names what is left out, each once, in the order it was met.

    Names may be a client's own, any number of them and of any length: of many only the first are
    told, and of a long one its beginning.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = dict.fromkeys(names)

    @property
    def names(self) -> tuple[str, ...]:
        """All of it."""
        return tuple(self._names)

    def add(self, name: str) -> None:
        """Name something that is left out."""
        if len(self._names) < MOST_LOSSES:
            self._names[name[:LONGEST_LOSS]] = None

    def note_unknown(self, node: JsonNode, known: frozenset[str], kind: str = "") -> None:
        """Name the members that are not known; those that ask for nothing are no loss."""
        for name, value in node.members.items():
            says_nothing = value is None or value is False or value in ([], {})
            if name not in known and not says_nothing:
                self.add(f"{kind}.{name}" if kind else name)
