"""Request bodies: checked once, then changed without touching what need not change.

The top level is read into raw slices, so a history of a megabyte is neither parsed nor written
again, and numbers, key order and unknown fields inside it survive byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from gateway.errors import BadRequest

T = TypeVar("T")
Fields = dict[str, msgspec.Raw]

_decode_fields = msgspec.json.Decoder(Fields).decode
_STRINGS = re.compile(rb'"[^"]*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def fields_of(body: bytes, depth: int = 0) -> Fields:
    """Read a JSON object's members as raw slices, or raise `BadRequest` saying what is wrong."""
    try:
        # The slices are not decoded further, so their text is checked here.
        body.decode()
        fields = _decode_fields(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not valid UTF-8 (byte {error.start}).") from None
    except msgspec.ValidationError:
        raise BadRequest("The body must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.") from None
    if depth and too_deep(body, depth):
        raise BadRequest(f"The body is nested more than {depth} levels deep.")
    return fields


def too_deep(body: bytes, depth: int) -> bool:
    """Whether valid JSON is nested deeper than this; one pass, and none for small bodies."""
    if body.count(b"[") + body.count(b"{") <= depth:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = _STRINGS.sub(b"", plain.translate(None, _NOT_STRUCTURE))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth


def without_duplicates(body: bytes, fields: Fields, names: Iterable[str]) -> bytes:
    """Return the body with each member once, so that the upstream reads the one that we read."""
    if _written_length(fields) == len(body):
        return body
    if not any(body.count(b'"%b"' % name.encode()) > 1 for name in names):
        return body
    return written(fields)


def _written_length(fields: Fields) -> int:
    # A compact body of just this length has no room for a member that was overwritten.
    return 1 + sum(len(name) + len(memoryview(value)) + 4 for name, value in fields.items())


def decoded(fields: Fields, name: str, decoder: msgspec.json.Decoder[T], default: T) -> T:
    """Read one member by its type; absent and null are the default."""
    raw = fields.get(name)
    if raw is None:
        return default
    try:
        value = decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"`{name}` is not as expected: {error}.", param=name) from None
    return default if value is None else value


def appended(array: bytes, items: Iterable[bytes]) -> bytes:
    """Put JSON items at the end of a JSON array."""
    start = array.strip()[:-1].rstrip()
    separator = b"" if start == b"[" else b","
    return start + separator + b",".join(items) + b"]"


def written(fields: Fields) -> bytes:
    """Write members back as an object."""
    return msgspec.json.encode(fields)


def raw(value: Any) -> msgspec.Raw:
    """Encode a value as a raw slice."""
    return msgspec.Raw(msgspec.json.encode(value))
