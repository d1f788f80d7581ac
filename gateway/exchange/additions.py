"""What the gateway puts into a request; a dialect writes each in its own form."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class AnsweredTurn(msgspec.Struct, frozen=True):
    """The assistant's turn as it was answered, in the form of the dialect that recorded it."""

    message: object


class UserText(msgspec.Struct, frozen=True, gc=False):
    """A user message."""

    text: str
    fleeting: bool = False
    """Whether it is true for one turn only, and not to be kept: what time it is."""


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a server tool returned for one call."""

    call_id: str
    text: str
    error: str = ""
    """What went wrong, in a sentence, if something did; the text says it to the model."""


class ToolDeclaration(msgspec.Struct, frozen=True, gc=False):
    """A server tool, offered to the model."""

    name: str
    description: str
    schema: str
    """The parameters' JSON schema, as JSON text."""
    strict: bool = True


Addition = AnsweredTurn | UserText | ToolResult | ToolDeclaration
NO_NAMES: frozenset[str] = frozenset()
NO_SIGNATURES: Mapping[str, str] = {}


class GatewayParts(msgspec.Struct, frozen=True, gc=False):
    """What of a request the gateway wrote, and may write in another way for another upstream."""

    texts: frozenset[str] = NO_NAMES
    """What it said in the user's name."""
    tools: frozenset[str] = NO_NAMES
    """The names of the tools it declared."""
    calls: frozenset[str] = NO_NAMES
    """The names of the tools it runs: a turn that calls one was put together by it."""
    is_whole: bool = False
    """Whether it wrote everything, as for an agent."""
    signatures: Mapping[str, str] = NO_SIGNATURES
    """What it remembers for the upstream: the signatures of calls, by the ids of the calls."""


NO_PARTS = GatewayParts()


def parts_of(
    additions: tuple[Addition, ...],
    calls: frozenset[str],
    is_whole: bool,
    signatures: Mapping[str, str] = NO_SIGNATURES,
) -> GatewayParts:
    """Say what of a request is the gateway's, after all that was added to it."""
    texts = frozenset([item.text for item in additions if isinstance(item, UserText)])
    tools = frozenset([item.name for item in additions if isinstance(item, ToolDeclaration)])
    return GatewayParts(texts, tools, calls, is_whole, signatures)
