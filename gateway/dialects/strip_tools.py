"""Requests without the client's tools: nobody is there to run them when a job asks."""

from __future__ import annotations

import msgspec

from gateway.dialects.raw_json import Fields, fields_of, raw, write_object

TOOLS = "tools"


class _Tool(msgspec.Struct):
    type: str = ""


_tool = msgspec.json.Decoder(_Tool)
_list = msgspec.json.Decoder(list[msgspec.Raw])


def strip_tools(body: bytes, dropped: tuple[str, ...], hosted: tuple[str, ...] = ()) -> bytes:
    """Leave out members, and all tools but those that the upstream runs by itself.

    The types of those begin with one of `hosted`.
    """
    fields = {name: value for name, value in fields_of(body).items() if name not in dropped}
    kept = [tool for tool in _tools(fields) if _type(tool).startswith(hosted)]
    fields.pop(TOOLS, None)
    if kept:
        fields[TOOLS] = raw(kept)
    return write_object(fields)


def _tools(fields: Fields) -> list[msgspec.Raw]:
    try:
        return _list.decode(fields.get(TOOLS, b"[]"))
    except msgspec.DecodeError:
        return []


def _type(tool: msgspec.Raw) -> str:
    try:
        return _tool.decode(tool).type
    except msgspec.DecodeError:
        return ""
