"""Who said what in a Responses request.

The input is one text, or a list of items of which messages are one kind. Items and their parts are
looked at as raw slices.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    edit_items,
    fields_of,
    raws_in,
    readable,
    write_object,
)
from gateway.dialects.seals import is_sealed
from gateway.dialects.text_editor import NOBODY, SpokenMessage

SPOKEN = b'{"type":"message","role":"user","content":[{"type":"input_text","text":%b}]}'
# What the model made that has no other sign of it in its name.
MODELS_OWN = ("reasoning", "compaction", "mcp_list_tools", "mcp_approval_request", "program")


class ResponsesItem(SpokenMessage):
    """What is looked at of an item; one without a type is a message."""

    type: str = "message"
    call_id: Any = None
    encrypted_content: Any = None


_item = msgspec.json.Decoder(ResponsesItem)


def items_of(fields: Fields) -> Raws:
    """Return the items of a request's input; a text is one message of the user."""
    asked = fields.get("input", NULL)
    if bytes(memoryview(asked)[:1]) == b'"':
        return [user_message(asked)]
    return raws_in(asked) or []


def item_of(item: msgspec.Raw) -> ResponsesItem:
    """Read what an item is; what is none is of no kind."""
    return readable(_item, item) or ResponsesItem(type="")


def user_message(text: str | msgspec.Raw) -> msgspec.Raw:
    """Write a text as a message of the user."""
    return msgspec.Raw(SPOKEN % msgspec.json.encode(text))


def last_role(asked: msgspec.Raw) -> str:
    """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""
    items = items_of({"input": asked})
    last = item_of(items[-1]) if items else ResponsesItem()
    if last.type == "message":
        return last.role
    if last.type.endswith("_output") or last.type == "mcp_approval_response":
        return "tool"
    return "assistant" if last.type.endswith("_call") or last.type in MODELS_OWN else ""


def strip_foreign_reasoning(body: bytes) -> bytes:
    """Take out reasoning that another dialect's upstream proved, or none."""
    fields = fields_of(body)
    return write_object(fields) if edit_items(fields, "input", _keep_own) else body


def _keep_own(items: Raws) -> Raws:
    return [item for item in items if not is_sealed(item_of(item).encrypted_content)]


def read_message(item: msgspec.Raw) -> SpokenMessage:
    """Read who speaks and what; an item that is no message is nobody's."""
    read = item_of(item)
    return read if read.type == "message" else NOBODY
