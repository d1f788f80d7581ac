"""What the gateway puts into a request; a dialect writes each in its own form."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """The assistant's turn as it was answered, in the form of the dialect that recorded it."""

    message: object


@dataclass(frozen=True, slots=True)
class UserText:
    """A user message."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a server tool returned for one call."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A server tool, offered to the model."""

    name: str
    description: str
    schema: str
    """The parameters' JSON schema, as JSON text."""
    strict: bool = True


Addition = AnsweredTurn | UserText | ToolResult | ToolDeclaration
