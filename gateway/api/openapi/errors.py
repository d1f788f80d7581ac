"""The shapes of errors.

What an upstream says of an error is passed on, and may be more or less than is described here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.api.jobs import JobError
from gateway.api.operations import NotReady


class ErrorDetail(msgspec.Struct):
    """What went wrong."""

    message: Annotated[str, Meta(description="One sentence for the person who reads it.")]
    type: str | UnsetType | None = UNSET
    param: Annotated[str | None, Meta(description="Which member is meant.")] | UnsetType = UNSET
    code: str | float | UnsetType | None = UNSET
    busy_reason: (
        Annotated[Literal["chat", "job"], Meta(description="What keeps a session busy.")]
        | UnsetType
    ) = UNSET


class Error(msgspec.Struct):
    """An error, as OpenAI writes them."""

    error: ErrorDetail


class MessagesErrorDetail(msgspec.Struct):
    """What went wrong."""

    type: str
    message: str


class MessagesError(msgspec.Struct):
    """An error, as Anthropic writes them."""

    type: Literal["error"]
    error: MessagesErrorDetail


# The front door refuses in one shape, whatever the path.
ERRORS: Mapping[str, Any] = {
    "Error": Error,
    "MessagesError": MessagesError,
    "JobError": (JobError, Error),
    "ReadinessError": (NotReady, Error),
}
