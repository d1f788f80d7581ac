"""What errors are called, and by which status they are known, in any dialect."""

from __future__ import annotations

import msgspec

from gateway.errors import HoldgateError

# The status of errors that upstreams tell without one, by what they call them.
STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
UNSAID = 502
# What Messages calls an error of a status.
MESSAGES_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def status_of(kind: object, code: object) -> int:
    """Return the status of an error: a code that is one, or that of its code or its type."""
    if isinstance(code, int) and 400 <= code < 600:
        return code
    named = STATUSES.get(code) if isinstance(code, str) else None
    return named or (STATUSES.get(kind, UNSAID) if isinstance(kind, str) else UNSAID)


def messages_type_of(status: int) -> str:
    """Return what Messages calls an error of this status."""
    usual = "api_error" if status >= 500 else "invalid_request_error"
    return MESSAGES_TYPES.get(status, usual)


def write_openai_error(message: str, kind: str, param: str | None, code: str | None) -> bytes:
    """Write an error as clients of OpenAI's two dialects know it."""
    described = {"message": message, "type": kind, "param": param, "code": code}
    return msgspec.json.encode({"error": described})


def describe_error(error: HoldgateError) -> bytes:
    """Write an error of the gateway's own in that form."""
    return write_openai_error(error.message, error.kind, error.param, error.code)
