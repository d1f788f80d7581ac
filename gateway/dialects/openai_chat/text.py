"""Who said what in a Chat Completions request."""

from __future__ import annotations

import msgspec

from gateway.dialects.raw_json import raws_in, readable
from gateway.dialects.text_editor import SpokenMessage

_message = msgspec.json.Decoder(SpokenMessage)


def read_message(item: msgspec.Raw) -> SpokenMessage | None:
    """Read who speaks and what; None for what is no message."""
    return readable(_message, item)


def last_role(messages: msgspec.Raw) -> str:
    """Return who speaks in the last message; nothing if that cannot be told."""
    items = raws_in(messages)
    last = read_message(items[-1]) if items else None
    role = "" if last is None else last.role
    # In the older form it is the function that speaks.
    return "tool" if role == "function" else role
