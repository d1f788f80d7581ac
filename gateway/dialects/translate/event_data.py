"""The data of server-sent events, out of frames, and read by their type."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from gateway.dialects.events import mend_json
from gateway.errors import UpstreamBroke
from gateway.wire.sse import data_of, split

T = TypeVar("T")


def extract_data(batch: bytes) -> list[bytes]:
    """Return the data of the frames in a batch; one frame at a time is the usual case."""
    # The first line is the general form. The rest gives the same for usual frames and saves more
    # than half of the time to translate an event; test_fast_paths.py compares them.
    if b"\r" in batch:
        return [data for frame in split(batch) if (data := data_of(frame))]
    if data := _only_line(batch[:-2]):
        return [data]
    frames = batch.split(b"\n\n")
    found = [_only_line(frame) or data_of(frame + b"\n\n") for frame in frames if frame]
    return [data for data in found if data]


def _only_line(frame: bytes) -> bytes | None:
    """Return the data of a frame that lost its empty line, if it is one line after its name."""
    name, gap, data = frame.rpartition(b"\n")
    if data[:6] != b"data: " or (gap and (name[:7] != b"event: " or b"\n" in name)):
        return None
    return data[6:]


def decode_event(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    """Read an event by its type; None for one of a shape that its dialect does not have."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_mended(decoder, data)


def _read_mended(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    """Read it as clients do: what is no character becomes a replacement character."""
    try:
        return decoder.decode(mend_json(data) or b"")
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        raise UpstreamBroke("The upstream sent an event that cannot be read.") from None


def number_in(value: Any, *names: str) -> int:
    """Return a count inside of objects, 0 if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return whole_number(value)


def whole_number(value: Any) -> int:
    """Return a number without its fraction, 0 for anything else."""
    return int(value) if isinstance(value, int | float) else 0
