"""What is looked at of every event of a Responses stream that is looked at."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.events import event_name, mend_json
from gateway.dialects.raw_json import ABSENT

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
