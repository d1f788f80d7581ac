"""Requests that are hard to handle: large bodies of one shape, in each dialect."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import zstandard

MB = 1024 * 1024
CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
DIALECTS = (CHAT, RESPONSES, MESSAGES)
PATHS = {
    CHAT: "/v1/chat/completions",
    RESPONSES: "/v1/responses",
    MESSAGES: "/v1/messages",
}
HISTORY = {CHAT: "messages", RESPONSES: "input", MESSAGES: "messages"}
Shape = Callable[[str, int], bytes]
"""Makes of a dialect and a size what stands in the body beside `model`."""


def write(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def user(dialect: str, text: bytes) -> bytes:
    """Write a message of the user; the text is JSON."""
    if dialect == RESPONSES:
        part = b'{"type":"input_text","text":%b}' % text
        return b'{"type":"message","role":"user","content":[%b]}' % part
    return b'{"role":"user","content":%b}' % text


def said(dialect: str, text: str) -> bytes:
    if dialect == RESPONSES:
        part = {"type": "output_text", "text": text}
        return write({"type": "message", "role": "assistant", "content": [part]})
    return write({"role": "assistant", "content": text})


def history(dialect: str, *items: bytes) -> bytes:
    return b'"%b":[%b]' % (HISTORY[dialect].encode(), b",".join(items))


def hello(dialect: str) -> bytes:
    return history(dialect, user(dialect, b'"hello"'))


def repeat(unit: bytes, size: int) -> list[bytes]:
    return [unit] * max(1, size // (len(unit) + 1))


def text_of(unit: bytes) -> Shape:
    """Make a shape of one long text; the unit is the inside of a JSON string."""

    def shape(dialect: str, size: int) -> bytes:
        return history(dialect, user(dialect, b'"%b"' % (unit * (size // len(unit)))))

    return shape


def member_of(unit: bytes) -> Shape:
    """Make a shape of a long list in an unknown member."""

    def shape(dialect: str, size: int) -> bytes:
        return hello(dialect) + b',"x":[%b]' % b",".join(repeat(unit, size))

    return shape


def small_messages(dialect: str, size: int) -> bytes:
    pair = user(dialect, b'"h"') + b"," + said(dialect, "y")
    return history(dialect, *repeat(pair, size))


def empty_items(dialect: str, size: int) -> bytes:
    return history(dialect, *repeat(b"{}", size))


def directives_in_history(dialect: str, size: int) -> bytes:
    pair = user(dialect, b'"<**clear**> hello"') + b"," + said(dialect, "yes")
    return history(dialect, *repeat(pair, size))


def parts(dialect: str, size: int) -> bytes:
    kind = b"input_text" if dialect == RESPONSES else b"text"
    items = b",".join(repeat(b'{"type":"%b","text":"a"}' % kind, size))
    message = b'{"type":"message","role":"user","content":[%b]}'
    if dialect != RESPONSES:
        message = b'{"role":"user","content":[%b]}'
    return history(dialect, message % items)


def images(dialect: str, size: int) -> bytes:
    data = "A" * 20_000
    part: dict[str, object] = {"type": "image_url", "image_url": {"url": ""}}
    if dialect == CHAT:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    elif dialect == RESPONSES:
        part = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    else:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        part = {"type": "image", "source": source}
    message: dict[str, object] = {"role": "user", "content": [part] * max(1, size // 20_100)}
    return history(dialect, write(message))


def tools(dialect: str, size: int) -> bytes:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    function = {"name": "f", "description": "clock", "parameters": schema}
    tool: dict[str, object] = {"type": "function", **function}
    if dialect == CHAT:
        tool = {"type": "function", "function": function}
    elif dialect == MESSAGES:
        tool = {"name": "f", "description": "clock", "input_schema": schema}
    return hello(dialect) + b',"tools":[%b]' % b",".join(repeat(write(tool), size))


def custom_tools(dialect: str, size: int) -> bytes:
    form = b'{"type":"custom","name":"n%d"}'
    if dialect == CHAT:
        form = b'{"type":"custom","custom":{"name":"n%d"}}'
    items = b",".join(form % number for number in range(size // 50))
    return hello(dialect) + b',"tools":[%b]' % items


def tool_calls(dialect: str, size: int) -> bytes:
    """A long loop of calls and results."""
    items: list[bytes] = [user(dialect, b'"hello"')]
    for number in range(size // 230):
        name = f"call_{number}"
        if dialect == CHAT:
            function = {"name": "f", "arguments": '{"a":1}'}
            call = {"id": name, "type": "function", "function": function}
            items.append(write({"role": "assistant", "content": None, "tool_calls": [call]}))
            items.append(write({"role": "tool", "tool_call_id": name, "content": "ok"}))
        elif dialect == RESPONSES:
            call = {"type": "function_call", "call_id": name, "name": "f", "arguments": '{"a":1}'}
            items.append(write(call))
            items.append(write({"type": "function_call_output", "call_id": name, "output": "ok"}))
        else:
            use = {"type": "tool_use", "id": name, "name": "f", "input": {"a": 1}}
            result = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
            items.append(write({"role": "assistant", "content": [use]}))
            items.append(write({"role": "user", "content": [result]}))
    return history(dialect, *items)


def system(dialect: str, size: int) -> bytes:
    text = b'"%b"' % (b"s" * size)
    if dialect == CHAT:
        told = b'{"role":"system","content":%b}' % text
        body = history(dialect, told, user(dialect, b'"hello"'))
    else:
        name = b"instructions" if dialect == RESPONSES else b"system"
        body = hello(dialect) + b',"%b":%b' % (name, text)
    return body + b',"tools":[{"name":"f","type":"function","function":{"name":"f"}}]'


def metadata(dialect: str, size: int) -> bytes:
    members = b",".join(b'"k%d":"v"' % number for number in range(size // 14))
    return hello(dialect) + b',"metadata":{%b}' % members


def duplicate_keys(dialect: str, size: int) -> bytes:
    return hello(dialect) + b"," + b",".join(repeat(b'"stream":false', size))


def unique_keys(dialect: str, size: int) -> bytes:
    return hello(dialect) + b"," + b",".join(b'"k%d":1' % n for n in range(size // 12))


def invalid_utf8(dialect: str, size: int) -> bytes:
    return history(dialect, user(dialect, b'"%b\xff"' % (b"x" * size)))


def white_space(dialect: str, size: int) -> bytes:
    return hello(dialect) + b" " * size


def answer_id(dialect: str, size: int) -> bytes:
    return hello(dialect) + b',"previous_response_id":"%b"' % (b"r" * size)


TRANSLATED: dict[str, Shape] = {
    "small messages": small_messages,
    "tool calls": tool_calls,
    "parts": parts,
    "tools": tools,
    "nested lists": member_of(b"[" * 100 + b"]" * 100),
    "empty lists": member_of(b"[]"),
    "system text": system,
    "images": images,
    "unique keys": unique_keys,
    "custom tools": custom_tools,
}
SHAPES: dict[str, Shape] = {
    **TRANSLATED,
    "marks": text_of(b"<**"),
    "marks and quotes": text_of(b'<**\\"'),
    "one text": text_of(b"x"),
    "escapes": text_of(b"\\n"),
    "unicode escapes": text_of(b"\\u4e2d"),
    "brackets in a text": text_of(b'\\"[{'),
    "numbers": member_of(b"1"),
    "empty items": empty_items,
    "directives in history": directives_in_history,
    "metadata": metadata,
    "duplicate keys": duplicate_keys,
    "invalid utf-8": invalid_utf8,
    "white space": white_space,
    "answer id": answer_id,
}


def body_of(shape: Shape, dialect: str, model: str, size: int) -> bytes:
    """Write a request for a model."""
    most = b',"max_tokens":100' if dialect == MESSAGES else b""
    return b'{"model":"%b"%b,%b}' % (model.encode(), most, shape(dialect, size))


def zip_bomb(body: bytes) -> bytes:
    return gzip.compress(body, 9)


def zstd_bomb(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=10).compress(body)


def wide_zstd(body: bytes) -> bytes:
    """Pack with a window as large as is taken."""
    form = zstandard.ZstdCompressionParameters.from_level(3, window_log=25)
    packer = zstandard.ZstdCompressor(compression_params=form).compressobj()
    return packer.compress(body) + packer.flush()


def many_members(body: bytes) -> bytes:
    """Pack in thousands of gzip members."""
    piece = len(body) // 5000
    return b"".join(gzip.compress(body[at : at + piece], 1) for at in range(0, len(body), piece))


def many_frames(body: bytes) -> bytes:
    """Pack in thousands of zstd frames."""
    piece, packer = len(body) // 5000, zstandard.ZstdCompressor()
    return b"".join(packer.compress(body[at : at + piece]) for at in range(0, len(body), piece))


def empty_blocks(body: bytes) -> bytes:
    """Pack nothing at all, at length."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * (len(body) // 5)


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip bomb": ("gzip", zip_bomb),
    "zstd bomb": ("zstd", zstd_bomb),
    "wide zstd": ("zstd", wide_zstd),
    "gzip members": ("gzip", many_members),
    "zstd frames": ("zstd", many_frames),
    "empty gzip blocks": ("gzip", empty_blocks),
}
