"""Answers to what cannot be read as a request, or is not let in: written without an application."""

from __future__ import annotations

import json

INVALID = "invalid_request_error"


def _refusal(status: str, kind: str, code: str, message: str, *lines: str) -> bytes:
    error = {"message": message, "type": kind, "param": None, "code": code}
    body = json.dumps({"error": error}).encode()
    head = (f"HTTP/1.1 {status}", "content-type: application/json", "connection: close", *lines)
    return "\r\n".join((*head, f"content-length: {len(body)}", "", "")).encode() + body


TOO_SLOW = _refusal(
    "408 Request Timeout", INVALID, "request_timeout", "The request did not arrive in time."
)
TOO_LONG = _refusal("400 Bad Request", INVALID, "bad_request", "The headers are too large.")
UNREADABLE = _refusal("400 Bad Request", INVALID, "bad_request", "This is not valid HTTP.")
TOO_MANY = _refusal(
    "503 Service Unavailable",
    "server_error",
    "too_many_connections",
    "The gateway has too many connections; try again shortly.",
    "retry-after: 1",
)
