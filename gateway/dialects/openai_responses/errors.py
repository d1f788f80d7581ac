"""Errors and ends in the words of the Responses API: read from upstreams, written for clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.dialects.events import Json, event_name, mend_json, read_event, read_object
from gateway.dialects.raw_json import ABSENT, Fields, raw
from gateway.dialects.statuses import describe_error, status_of
from gateway.errors import HoldgateError, UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.wire.sse import encode

FAILED = "response.failed"
FAILURES = ("error", FAILED)
ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}


class EventHead(msgspec.Struct, gc=False):
    """What an event is; what is long stays a raw slice."""

    type: Any = None
    sequence_number: Any = None
    response: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT

    @property
    def fails(self) -> bool:
        """Whether it says that something went wrong."""
        nameless = not self.type and bytes(self.error) not in (b"", b"null")
        return self.type in FAILURES or nameless


_head = msgspec.json.Decoder(EventHead)


def read_head(frame: bytes, data: bytes) -> EventHead | None:
    """Read an event as clients do; one without a type that is a text has that of its name."""
    head = _read(data)
    if head is None and (mended := mend_json(data)) is not None:
        head = _read(mended)
    if head is not None and not isinstance(head.type, str):
        head.type = event_name(frame)
    return head


def _read(data: bytes) -> EventHead | None:
    try:
        if not data.isascii():
            # What is not looked at is not decoded either, and must be text all the same.
            data.decode()
        return _head.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_last(frame: bytes) -> bool:
    """Tell whether an event that cannot be read ends an answer, by its name."""
    name = event_name(frame)
    return name in ENDS or name in FAILURES


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
    created = lifecycle("response.created", begun, sequence)
    return created + lifecycle(FAILED, {**begun, **failure}, sequence + 1)


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
