"""Requests as raw JSON: checked once, then changed without touching what need not change.

The top level is read into raw slices, so a history of a megabyte is neither parsed nor written
again, and numbers, key order and unknown fields inside it survive byte for byte. What is not as it
should be further down is the upstream's to judge.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from gateway.errors import BadRequest

T = TypeVar("T")
Fields = dict[str, msgspec.Raw]
Raws = list[msgspec.Raw]
ABSENT = msgspec.Raw(b"")
NULL = msgspec.Raw(b"null")
# Twice as deep as nearly anything is nested.
PASSES = 12
NOTHING = (b"", b"null", b"[]")
COLON, BACKSLASH = b":\\"
# Longer members beside the history are not remembered.
MOST_REMEMBERED = 512


class _Asked(msgspec.Struct, gc=False):
    model: str | None = None
    stream: bool | None = None


class _Form(msgspec.Struct, gc=False):
    type: str | None = None


_asked = msgspec.json.Decoder(_Asked)
_form = msgspec.json.Decoder(_Form)
_members: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_items: msgspec.json.Decoder[Raws] = msgspec.json.Decoder(Raws)
_text = msgspec.json.Decoder(str)
_decode_fields = _members.decode
BEGINNING = 24
_STRINGS = re.compile(rb'"[^"]*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def fields_of(body: bytes) -> Fields:
    """Read the members of a body that was read before as raw slices."""
    return _decode_fields(body)


def read_as(decoder: msgspec.json.Decoder[T], body: bytes, depth: int) -> T:
    """Read a body by its type, or raise `BadRequest` saying what is wrong and where."""
    try:
        # Raw slices are not decoded further, so their text is checked here.
        body.decode()
        found = decoder.decode(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not valid UTF-8 (byte {error.start}).") from None
    except msgspec.ValidationError as error:
        raise misfit(str(error)) from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.") from None
    if is_too_deep(body, depth):
        raise BadRequest(f"The body is nested more than {depth} levels deep.")
    return found


def name_model(body: bytes, model: str | None, default: str) -> tuple[str, bytes]:
    """Return the model of a request, and the body that names it; without one, refuse it."""
    if model:
        return model, body
    if model == "" or not default:
        raise BadRequest("`model` is missing; name a model, see GET /v1/models.", param="model")
    return default, write_model(body, default)


def write_model(body: bytes, model: str) -> bytes:
    """Name another model, and keep everything else."""
    return write_object({**fields_of(body), "model": raw(model)})


def rename_model(body: bytes, model: str, stream: bool) -> bytes:
    """Name the model as the upstream knows it; a body that is right already stays as it is."""
    request = _asked.decode(body)
    if request.model == model and bool(request.stream) == stream:
        return body
    fields = fields_of(body)
    fields["model"] = raw(model)
    if bool(request.stream) != stream:
        fields["stream"] = raw(stream)
    return write_object(fields)


def array(value: msgspec.Raw, name: str) -> bytes:
    """Return an array as it came, empty if it is absent, null or empty; refuse anything else."""
    found = bytes(value)
    if found in NOTHING:
        return b""
    if found[:1] != b"[":
        raise BadRequest(f"`{name}` must be an array.", param=name)
    return found


def type_in(value: msgspec.Raw) -> str:
    """Return the type that an object says it is of; empty if it says none."""
    found = readable(_form, value)
    return (found.type or "") if found is not None else ""


def is_structured(form: msgspec.Raw) -> bool:
    """Whether the form that a request wants its answer in is any other than text."""
    # What is wrong with a form that cannot be read is the upstream's to say.
    return bytes(form) not in NOTHING and type_in(form) != "text"


def forces_one(tool_choice: msgspec.Raw, kinds: tuple[str, ...]) -> bool:
    """Whether one tool of the client's, of these kinds, has to be called."""
    return bytes(memoryview(tool_choice)[:1]) == b"{" and type_in(tool_choice) in kinds


def restricts_tools(tool_choice: msgspec.Raw) -> bool:
    """Whether a tool is forced, or only some may be called, in OpenAI's words."""
    return bytes(tool_choice).startswith((b'"required"', b"{"))


def misfit(problem: str) -> BadRequest:
    """Name the member that is not what it should be."""
    says, _, place = problem.partition(" - at `$.")
    if not place:
        return BadRequest("The body must be a JSON object.")
    name = re.split(r"[.\[`]", place)[0]
    return BadRequest(f"`{name}` is not as expected: {says}.", param=name)


def is_too_deep(body: bytes, depth: int) -> bool:
    """Whether valid JSON is nested deeper than this."""
    # Few brackets cannot be nested deeply: it saves looking for those in strings, nearly always.
    # `test_the_depth_is_that_of_the_value` compares it with a plain count.
    if _openings(body, b"[", depth) + _openings(body, b"{", depth) <= depth:
        return False
    brackets = left = _brackets(body)
    for _ in range(min(depth // 2, PASSES)):
        # What is innermost goes: one level of each kind, so two levels at the most.
        left = left.replace(b"{}", b"").replace(b"[]", b"")
        if not left:
            return False
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth


def _openings(body: bytes, bracket: bytes, most: int) -> int:
    """Count brackets, but not on and on: the few there mostly are, are quickly found."""
    at, count = body.find(bracket), 0
    while at >= 0 and count <= most:
        count += 1
        at = body.find(bracket, at + 1)
    return count


def _brackets(body: bytes) -> bytes:
    """Return the brackets of valid JSON that are not in strings."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Without what is in them strings are two quotes; two that meet can go, whosever they are.
    marks = plain.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    return _STRINGS.sub(b"", marks) if b'"' in marks else marks


def drop_duplicates(
    body: bytes, names: tuple[bytes, ...], history: bytes = b"", beside: bytes = b""
) -> bytes:
    """Return the body with each member once, so that the upstream reads the one that we read.

    `names` are those that are read, as `quote_names` returns them; `history` is the member that may
    be long, `beside` the body without it if that is known.
    """
    # The count saves writing the body again: a name that stands there once came once. One that
    # stands there more often may be in a text (test_fast_paths.py). No member stands in an array,
    # so nothing is looked for in that; a text could begin at the end of another one.
    searched = beside or (_cut_out(body, history) if history.startswith(b"[") else body)
    has_twice = _remember_twice if len(searched) <= MOST_REMEMBERED else _has_twice
    return _each_once(body) if has_twice(searched, names) else body


def _has_twice(searched: bytes, names: tuple[bytes, ...]) -> bool:
    return any(searched.count(name) > 1 for name in names)


# A client mostly sends the same beside its history, and this saves searching it seven times.
_remember_twice = lru_cache(maxsize=256)(_has_twice)


def _cut_out(body: bytes, part: bytes) -> bytes:
    """Return a body without a part of it, if that is found at once."""
    # To look for all of a long part takes longer than to look for its beginning and compare.
    at = body.find(part[:BEGINNING])
    return body[:at] + body[at + len(part) :] if body.startswith(part, at) else body


def quote_names(*names: str) -> tuple[bytes, ...]:
    """Return names as they stand in JSON."""
    return tuple(b'"%b"' % name.encode() for name in names)


def _each_once(body: bytes) -> bytes:
    fields = fields_of(body)
    once = write_object(fields)
    # A compact body of just this length has no room for a member that was overwritten.
    return body if len(once) == len(body) else once


def append_items(array: bytes, items: Iterable[bytes]) -> bytes:
    """Put JSON items at the end of a JSON array."""
    start = array.strip()[:-1].rstrip()
    separator = b"" if start == b"[" else b","
    return b"%b%b%b]" % (start, separator, b",".join(items))


def append_to(fields: Fields, name: str, items: Iterable[bytes]) -> None:
    """Put JSON items at the end of a member, which may be absent or null."""
    present = bytes(fields.get(name, NULL))
    fields[name] = msgspec.Raw(append_items(b"[]" if present == b"null" else present, items))


def write_object(fields: Fields) -> bytes:
    """Write members back as an object."""
    return msgspec.json.encode(fields)


def raw(value: Any) -> msgspec.Raw:
    """Encode a value as a raw slice."""
    return msgspec.Raw(msgspec.json.encode(value))


def readable(decoder: msgspec.json.Decoder[T], value: bytes | str | msgspec.Raw) -> T | None:
    """Read a value if it is what it should be."""
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def raws_in(value: msgspec.Raw) -> Raws | None:
    """Return the items of a list."""
    return readable(_items, value)


def read_last(decoder: msgspec.json.Decoder[T], items: msgspec.Raw, begins: bytes) -> T | None:
    """Read the last item of a list that is valid JSON, if it is an object that begins so.

    None: it begins otherwise, is not what it should be, or there is none. `raws_in` tells.
    """
    # It saves passing over the whole list. No string holds these bytes, since a quote in one is
    # escaped; so an object begins there. If it ends where the list does, it is the last item, and
    # else the decoder finds more behind it (test_fast_paths.py).
    text = bytes(items)
    at = text.rfind(begins)
    return None if at < 0 else readable(decoder, text[at:-1])


def find_list(body: bytes, name: bytes, items: bytes) -> tuple[int, bytes]:
    """Find where a list of objects ends that a member of a valid body holds; 0: not sure.

    `name` is the member's in its quotes, `items` the list as the body has it. Returns also what is
    in the body beside this member, or all of it.
    """
    at = body.find(name)
    begins = at + len(name) + 1
    if at >= 0 and body.startswith(items, begins) and items.endswith(b"}]"):
        end = begins + len(items)
        beside = body[:at] + body[end:]
        # The name stands there once, and no other is written with an escape: it is the member's.
        if BACKSLASH not in beside and beside.find(name) < 0 and body[begins - 1] == COLON:
            return end, beside
    return 0, body


def splice_in(body: bytes, list_end: int, items: list[bytes], tools: list[bytes]) -> bytes:
    """Put items at the end of a list with items that ends there, and tools where none are.

    The fast twin of `fields_of`, `append_to` and `write_object`: nothing is read or written again.
    """
    put, ends = list_end - 1, body.rindex(b"}")
    start, rest, end = body[:put], body[put:ends], body[ends:]
    said = b",".join((start, *items))
    if not tools:
        return b"%b%b%b" % (said, rest, end)
    return b'%b%b,"tools":[%b]%b' % (said, rest, b",".join(tools), end)


def members_of(item: bytes | msgspec.Raw) -> Fields:
    """Return the members of an object; of anything else there are none."""
    return readable(_members, item) or {}


def text_of(value: msgspec.Raw) -> str | None:
    """Return a text."""
    return readable(_text, value)


def edit_items(fields: Fields, name: str, edit: Callable[[Raws], Raws]) -> bool:
    """Change the items of a list, if it is one; tell whether anything was changed.

    What is not changed stays the same object, by which it is known.
    """
    before = raws_in(fields.get(name, NULL)) or []
    after = edit(before)
    if same(after, before):
        return False
    fields[name] = raw(after)
    return True


def same(after: Raws, before: Raws) -> bool:
    """Whether nothing was changed."""
    return len(after) == len(before) and all(map(operator.is_, after, before))
