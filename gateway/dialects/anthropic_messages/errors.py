"""Errors as Messages clients know them, and as its upstreams say them."""

from __future__ import annotations

import msgspec

from gateway.dialects.events import Json, read_event, read_object
from gateway.dialects.statuses import status_of
from gateway.errors import HoldgateError, UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.wire.sse import encode

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


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
    described = {"type": _type_of(error.status), "message": message}
    return msgspec.json.encode({"type": "error", "error": described})


def error_frame(error: HoldgateError) -> bytes:
    """Render an error inside a stream; clients do not see it without its name."""
    return encode(error_body(error).replace(b"\n", b" ").replace(b"\r", b" "), "error")


def _sentence(error: object) -> str:
    told = error.get("message") if isinstance(error, dict) else error
    return told if isinstance(told, str) else ""


def _type_of(status: int) -> str:
    return TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
