"""What the gateway puts into a request; a dialect writes each in its own form."""

from __future__ import annotations

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


class ToolDeclaration(msgspec.Struct, frozen=True, gc=False):
    """A server tool, offered to the model."""

    name: str
    description: str
    schema: str
    """The parameters' JSON schema, as JSON text."""
    strict: bool = True


Addition = AnsweredTurn | UserText | ToolResult | ToolDeclaration
