"""The steps of an answer, said without any wire format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pieces = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Stay silent for a while."""

    ms: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Send the head of the answer, and the frame that opens it."""

    speaks: bool = True


@dataclass(frozen=True, slots=True)
class Say:
    """Speak a run of tokens at one pace; a run that goes on for ever starts again."""

    pieces: Pieces
    every_ms: int
    forever: bool = False


@dataclass(frozen=True, slots=True)
class CallTool:
    """Open a call of a tool; its arguments follow."""

    name: str


@dataclass(frozen=True, slots=True)
class Argue:
    """Send the arguments of the open call, piece by piece."""

    pieces: Pieces
    every_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """Put these bytes into the stream as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error: a status before the answer began, an error frame after it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the answer unfinished: close, reset, or never say another word."""

    how: Literal["close", "reset", "hang"]


@dataclass(frozen=True, slots=True)
class FinishAnswer:
    """End the answer; `ends` is how many end marks are sent, normally one."""

    reason: str
    ends: int = 1


Step = Pause | Begin | Say | CallTool | Argue | Write | Fail | Break | FinishAnswer
