"""What a translation leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.translate.json_node import JsonNode

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
