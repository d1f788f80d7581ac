"""What a translated answer goes by: names and ids from its request, and its limit in memory."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from gateway.dialects.raw_json import readable
from gateway.errors import BadRequest, UpstreamBroke
from gateway.exchange.model import ModelRequest

ID_DIGITS = 24
# They are remembered for the answer, which takes the event loop time for each.
MOST_CUSTOM_TOOLS = 10_000
# Who calls functions "custom", and has no tools that take plain text.
FUNCTIONS_ONLY = frozenset({"anthropic-messages"})


class _CustomDeclaration(msgspec.Struct):
    name: str = ""


class _OfferedTool(msgspec.Struct):
    type: str = ""
    name: str = ""
    custom: _CustomDeclaration | None = None


_tools = msgspec.json.Decoder(list[_OfferedTool])


class AnswerContext(msgspec.Struct, frozen=True):
    """What the client asked for, as far as the answer tells."""

    model: str
    """Its name for the model, shown where the upstream says none."""
    seed: str
    """What no other turn has; ids are made of it."""
    created: int = 0
    """When the answer began, shown where the upstream does not say."""
    request: bytes = b"{}"
    custom: frozenset[str] = frozenset()
    """The tools that take plain text instead of JSON."""
    keeps_id: bool = False
    """Whether the answer keeps the upstream's id: both speak the same dialect."""

    def ident(self, prefix: str, *told: object) -> str:
        """Make an id: each time the same for the same things told."""
        if self.keeps_id and len(told) == 1 and told[0]:
            return str(told[0])
        parts = "\0".join(map(str, (self.seed, *told)))
        return f"{prefix}{sha256(parts.encode(errors='replace')).hexdigest()[:ID_DIGITS]}"


def read_context(asked: ModelRequest, dialect: str, seed: str, created: int) -> AnswerContext:
    """Take from a request of this dialect what its answer needs of it."""
    # The search saves reading the tools of nearly every request (test_fast_paths.py).
    has_custom = b'"custom"' in asked.tools and dialect not in FUNCTIONS_ONLY
    custom = read_custom_tools(asked.tools) if has_custom else frozenset()
    return AnswerContext(asked.model, seed, created, asked.body, custom)


def read_custom_tools(tools: bytes) -> frozenset[str]:
    """Return the names of the tools that take plain text."""
    # What is wrong with them, if they cannot be read, is the request's translation to say.
    offered = (tool for tool in readable(_tools, tools) or () if tool.type == "custom")
    names = (tool.custom.name if tool.custom else tool.name for tool in offered)
    found = frozenset(name for name in names if name)
    if len(found) > MOST_CUSTOM_TOOLS:
        raise BadRequest(f"`tools` has more than {MOST_CUSTOM_TOOLS} custom tools.", param="tools")
    return found


class ByteBudget:
    """How much of one answer may be kept in memory, by all who have to keep some of it."""

    __slots__ = ("_left", "_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    def spend(self, size: int) -> None:
        """Take room for something that is kept."""
        self._left -= size
        if self._left < 0:
            raise UpstreamBroke(
                f"More than {self._size} bytes of the upstream's answer would have to be kept."
            )
