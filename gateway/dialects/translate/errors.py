"""Errors of upstreams, said in the words of another dialect."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.canonical import Failed
from gateway.dialects.events import read_object
from gateway.dialects.statuses import (
    MESSAGES_TYPES,
    UNSAID,
    messages_type_of,
    status_of,
    write_openai_error,
)
from gateway.errors import UpstreamError

# Types that OpenAI's dialects have no such word for.
OPENAI_TYPES = {"api_error": "server_error", "overloaded_error": "server_error"}
# Codes by which clients of OpenAI's dialects tell what to do, by status.
CODES = {
    401: "invalid_api_key",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
TOO_LONG = "prompt is too long"


def read_failure(answer: Any, status: int = 0) -> Failed:
    """Read an error in any of the forms that upstreams have for it; the status may be unknown."""
    error = _error_in(answer)
    message = error.get("message") or error.get("detail")
    kind, code = error.get("type"), error.get("code")
    kind = kind if isinstance(kind, str) and kind != "error" else ""
    status = status or status_of(kind, code)
    if not (isinstance(message, str) and message):
        unsaid = "The upstream reported an error."
        message = unsaid if status == UNSAID else f"The upstream answered {status}."
    return Failed(message, kind, code if isinstance(code, str) else "", status)


def describe_error(error: UpstreamError) -> Failed:
    """Say what the gateway itself found wrong with an answer that had begun."""
    return Failed(error.message, error.kind, error.code, error.status)


def openai_error(failure: Failed) -> bytes:
    """Write an error in the words of Chat Completions and Responses."""
    kind = failure.kind or messages_type_of(failure.status)
    kind = OPENAI_TYPES.get(kind, kind)
    return write_openai_error(failure.message, kind, None, _code_of(failure) or None)


def messages_error(failure: Failed) -> bytes:
    """Write an error in the words of Messages."""
    is_known = failure.kind in MESSAGES_TYPES.values()
    kind = failure.kind if is_known else messages_type_of(failure.status)
    described = {"type": kind, "message": failure.message}
    return msgspec.json.encode({"type": "error", "error": described})


def responses_failure(failure: Failed) -> dict[str, str]:
    """Write the error of a response that failed; it always has a code."""
    fallback = "invalid_prompt" if failure.status == 400 else "server_error"
    return {"code": _code_of(failure) or fallback, "message": failure.message}


def read_body(body: bytes, status: int = 0) -> Failed:
    """Read an upstream's error answer, whatever it is."""
    return read_failure(read_object(body), status)


def _error_in(answer: Any) -> dict[str, Any]:
    """Find the error: under its name, in a response that failed, or as the answer itself."""
    if not isinstance(answer, dict):
        return {}
    response = answer.get("response")
    error = (response if isinstance(response, dict) else answer).get("error")
    if not error:
        return {} if response else answer
    return error if isinstance(error, dict) else {"message": error}


def _code_of(failure: Failed) -> str:
    if failure.code:
        return failure.code
    if failure.message.lower().startswith(TOO_LONG):
        # Clients make a conversation shorter when they see this one.
        return "context_length_exceeded"
    return CODES.get(failure.status, "")
