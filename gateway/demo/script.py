"""What the demo model does with one request, said without any wire format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Literal, overload

Pieces = Sequence[str]


@dataclass(frozen=True, slots=True)
class Repeated(Sequence[str]):
    """Words said over and over, from one place to another; a million cost no more than one."""

    words: tuple[str, ...]
    start: int
    stop: int
    size: int | None = None

    def __len__(self) -> int:
        return self.stop - self.start if self.words else 0

    def __iter__(self) -> Iterator[str]:
        start = self.start % len(self.words) if self.words else 0
        said = islice(cycle(self.words), start, start + len(self))
        return said if self.size is None else map(self._stretch, said)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Repeated: ...

    def __getitem__(self, at: int | slice) -> str | Repeated:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return replace(self, start=self.start + start, stop=self.start + max(start, stop))
        word = self.words[(self.start + range(len(self))[at]) % len(self.words)]
        return word if self.size is None else self._stretch(word)

    def _stretch(self, word: str) -> str:
        assert self.size is not None
        return (word * (self.size // len(word) + 1))[: self.size]


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


Run = Say | Argue
Step = Pause | Begin | Say | CallTool | Argue | Write | Fail | Break | FinishAnswer


@dataclass(frozen=True, slots=True)
class WireFormat:
    """How the bytes of an answer look, whatever they say."""

    newline: bytes = b"\n"
    bom: bool = False
    gzip: bool = False
    split: int = 0
    reset_at: int | None = None
    usage: bool | None = None
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """The whole answer to one request."""

    steps: tuple[Step, ...]
    wire_format: WireFormat = WireFormat()
