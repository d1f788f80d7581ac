"""Errors in the words of the Responses API: read from upstreams, written for clients."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.dialects.events import Json, read_event, read_object
from gateway.dialects.openai_responses.heads import FAILED
from gateway.dialects.raw_json import Fields, raw
from gateway.dialects.statuses import describe_error, status_of
from gateway.errors import HoldgateError, UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.wire.sse import encode

NOBODYS = "resp_holdgate"


def find_error(answer: Json) -> Json | None:
    """Find the error in a body or an event, in any of the forms upstreams have for it."""
    if answer.get("object") == "response" or answer.get("output"):
        return None
    response = answer.get("response")
    if isinstance(response, dict) and answer.get("type") == FAILED:
        answer = response
    elif answer.get("type") == "error" and not answer.get("error"):
        return {name: answer.get(name) for name in ("message", "type", "param", "code")}
    elif not answer.get("error"):
        return None
    error = answer.get("error")
    return error if isinstance(error, dict) else {"message": str(error or "")}


def read_disguised_error(body: bytes) -> UpstreamError:
    """Read an error that came under a 2xx status, or say that the answer makes no sense."""
    answer = read_event(body)
    error = find_error(answer) if answer is not None else None
    if answer is None or error is None:
        return UpstreamBroke("The upstream's answer is not what was asked for.")
    status = status_of(error.get("type"), error.get("code"))
    # A failed response tells more than its error, and is shown as it is where it can be.
    own = body if answer.get("type") == FAILED else msgspec.json.encode({"error": error})
    return UpstreamAnswered(status, (), own)


def find_own_end(error: HoldgateError) -> bytes:
    """Return the upstream's own event of a response that failed; nothing if there is none."""
    if not isinstance(error, UpstreamAnswered):
        return b""
    if (read_object(error.body) or {}).get("type") != FAILED:
        return b""
    return encode(error.body.replace(b"\n", b" ").replace(b"\r", b" "), FAILED)


def error_body(error: HoldgateError) -> bytes:
    """Render an error as the whole answer; the upstream's own words pass if they are an error."""
    if isinstance(error, UpstreamAnswered):
        answer = read_object(error.body)
        if answer is not None and "error" in answer:
            return error.body
        if answer is not None and (own := find_error(answer)) is not None:
            return msgspec.json.encode({"error": own})
    return describe_error(error)


def render_failure(
    error: HoldgateError, envelope: Fields | None, output: Sequence[Json], sequence: int
) -> bytes:
    """Render an error inside a stream: the response has failed.

    Where no response has begun, one is begun for it: clients accept nothing else first.
    """
    failure = {"status": raw("failed"), "error": raw(_failure(error)), "output": raw(output)}
    if envelope is not None:
        return lifecycle(FAILED, {**envelope, **failure}, sequence)
    begun = _minimal()
    return lifecycle("response.created", begun, sequence) + lifecycle(
        FAILED, {**begun, **failure}, sequence + 1
    )


def lifecycle(kind: str, response: Fields, sequence: int) -> bytes:
    """Make an event that carries the response."""
    event = {"type": kind, "sequence_number": sequence, "response": response}
    return encode(msgspec.json.encode(event), kind)


def _minimal() -> Fields:
    members: Json = {
        "id": NOBODYS,
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }
    return {name: raw(value) for name, value in members.items()}


def _failure(error: HoldgateError) -> Json:
    """Say what went wrong, with the upstream's own code: clients act by it."""
    answer = read_object(error.body) if isinstance(error, UpstreamAnswered) else None
    own = find_error(answer) if answer is not None else None
    if not own:
        return {"code": error.code, "message": error.message}
    code, message = own.get("code"), own.get("message")
    return {
        "code": code if isinstance(code, str) and code else "server_error",
        "message": message if isinstance(message, str) and message else error.message,
    }
