"""Errors as Messages clients know them, and as its upstreams say them."""

from __future__ import annotations

import msgspec

from gateway.dialects.events import Json, read_event, read_object
from gateway.dialects.statuses import messages_type_of, status_of
from gateway.errors import HoldgateError, UpstreamAnswered, UpstreamBroke, UpstreamError


def is_error(event: Json) -> bool:
    """Whether this is an error and not an event, or an answer."""
    return event.get("type") == "error" or (not event.get("type") and bool(event.get("error")))


def read_disguised_error(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_event(body)
    if answer is None or not is_error(answer):
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    error = answer.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return UpstreamAnswered(status_of(kind, None), (), body)


def error_body(error: HoldgateError) -> bytes:
    """Render an error as the whole answer; the upstream's own words pass, in this shape."""
    message = error.message
    if isinstance(error, UpstreamAnswered):
        own = read_object(error.body) or {}
        if own.get("type") == "error" and isinstance(own.get("error"), dict):
            return error.body
        message = _sentence(own.get("error")) or message
    described = {"type": messages_type_of(error.status), "message": message}
    return msgspec.json.encode({"type": "error", "error": described})


def _sentence(error: object) -> str:
    told = error.get("message") if isinstance(error, dict) else error
    return told if isinstance(told, str) else ""
