"""What the parent of several workers and each of them say to each other, over two pipes.

The parent sends pickles, since a configuration is more than JSON can say; a worker answers with one
line of JSON, once it serves.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

import msgspec

from gateway.config import Config
from gateway.offload.frames import read_frame, write_frame


@dataclass(frozen=True, slots=True)
class WorkerSeat:
    """Which of the workers a process is, and where the metrics of each are."""

    number: int
    """From 1."""
    metrics_urls: tuple[str, ...]
    """In the order of the workers."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    """The first message: serve with this configuration, at this port."""

    seat: WorkerSeat
    config: Config
    port: int
    metrics_socket: int
    """A descriptor that the worker inherited."""


@dataclass(frozen=True, slots=True)
class UseConfig:
    """The configuration was read again."""

    config: Config


@dataclass(frozen=True, slots=True)
class LeaveWorker:
    """Drain and end; or end at once."""

    at_once: bool = False


WorkerMessage = StartWorker | UseConfig | LeaveWorker


class WorkerReady(msgspec.Struct, frozen=True):
    """A worker serves."""

    instance: str


def encode_message(message: WorkerMessage) -> bytes:
    """Return a message as it is sent."""
    frame = BytesIO()
    write_frame(frame, pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    return frame.getvalue()


def read_message(pipe: BinaryIO) -> WorkerMessage:
    """Wait for the next message; raise `EOFError` when the parent is gone."""
    message: WorkerMessage = pickle.loads(read_frame(pipe)[0])
    return message


def encode_ready(ready: WorkerReady) -> bytes:
    """Return the line that says that a worker serves."""
    return msgspec.json.encode(ready) + b"\n"


def decode_ready(line: bytes) -> WorkerReady:
    """Read that line."""
    return msgspec.json.decode(line, type=WorkerReady)
