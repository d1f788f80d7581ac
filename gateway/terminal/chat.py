"""A chat in the terminal, over the gateway's own HTTP API."""

from __future__ import annotations

import secrets
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from math import ceil
from typing import TextIO

import httpx
import msgspec

from gateway.errors import UpstreamBroke
from gateway.sse import Framer, data_of
from gateway.terminal.line import CONTROLS, Refused, connected, reason, say

Message = dict[str, str]

NOTE = b": holdgate "
WIPE = "\r\x1b[K"
DIM, BRIGHT = "\x1b[2m", "\x1b[0m"


class Note(msgspec.Struct, frozen=True):
    """What the gateway tells people about an answer: its state, and until when it is held."""

    state: str = ""
    until: int | None = None
    now: int | None = None
    why: str = ""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None


class _Failure(msgspec.Struct):
    message: str = "the answer broke off."


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    error: _Failure | str | None = None


_chunk = msgspec.json.Decoder(_Chunk)
_note = msgspec.json.Decoder(Note)


def chat(url: str, key: str, session: str, model: str) -> None:
    """Talk until the input ends; Ctrl-C leaves an answer, or the chat. Raises `Refused`."""
    session = session or f"chat-{secrets.token_hex(4)}"
    headers = {b"x-session-id": session.encode(), b"x-holdgate-notes": b"1"}
    with connected(url, key, headers, None) as client:
        model = model or _first_model(client)
        say(f"{model} at {url}, session {session}; Ctrl-C leaves an answer, Ctrl-D the chat.")
        _talk(client, model)


def _talk(client: httpx.Client, model: str) -> None:
    history: list[Message] = []
    while True:
        try:
            line = _typed()
        except KeyboardInterrupt:
            line = ""
        if not line:
            print()
            return
        if line.strip():
            _turn(client, model, history, line.removesuffix("\n"))


def _typed() -> str:
    """Return the next line, or nothing at the end of the input."""
    # Not input(), which would notice a Ctrl-C that meets its prompt with the next key only.
    print("> ", end="", flush=True)
    return sys.stdin.readline()


def _turn(client: httpx.Client, model: str, history: list[Message], text: str) -> None:
    """Ask and show; what was not answered is not part of the conversation."""
    history.append({"role": "user", "content": text})
    screen = Screen(sys.stdout)
    try:
        said = _show(client, model, history, screen)
    except Refused as refused:
        screen.end()
        say(f"holdgate: {refused}")
        said = ""
    if said:
        history.append({"role": "assistant", "content": said})
    else:
        history.pop()


def _show(client: httpx.Client, model: str, history: list[Message], screen: Screen) -> str:
    said = ""
    body = {"model": model, "stream": True, "messages": history}
    try:
        with closing(_heard(client, body)) as heard:
            for what in heard:
                if isinstance(what, Note):
                    screen.note(what)
                else:
                    said += what
                    screen.say(what)
    except KeyboardInterrupt:
        screen.leave()
    screen.end()
    return said


def _heard(client: httpx.Client, body: dict[str, object]) -> Generator[str | Note]:
    """Yield the answer's text as it comes, and the notes between."""
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            answer.read()
            raise Refused(reason(answer))
        for frame in _frames(answer):
            if frame.startswith(NOTE):
                yield _read_note(frame)
            else:
                yield _text(data_of(frame))


def _frames(answer: httpx.Response) -> Iterator[bytes]:
    framer = Framer()
    try:
        for data in answer.iter_bytes():
            yield from framer.feed(data)
    except httpx.TransportError:
        raise Refused("the answer broke off.") from None
    except UpstreamBroke as broke:
        raise Refused(broke.message) from None


def _read_note(frame: bytes) -> Note:
    try:
        return _note.decode(frame[len(NOTE) :])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Note()


def _text(data: bytes | None) -> str:
    if data is None or data == b"[DONE]":
        return ""
    try:
        chunk = _chunk.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused("the answer cannot be read.") from None
    if chunk.error is not None:
        raise Refused(chunk.error if isinstance(chunk.error, str) else chunk.error.message)
    return "".join(one.delta.content or "" for one in chunk.choices if one.delta)


def _first_model(client: httpx.Client) -> str:
    answer = client.get("/v1/models")
    if answer.status_code != 200:
        raise Refused(reason(answer))
    models = answer.json()["data"]
    if not models:
        raise Refused("no model is listed; name one with --model.")
    return str(models[0]["id"])


class Screen:
    """What a person sees of one answer: its text, and a countdown while it is held."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._at_line_start = True
        self._after_hold = False
        self._countdown: Countdown | None = None
        self._held_until: int | None = None
        self._why = ""

    def say(self, text: str) -> None:
        """Show a piece of the answer; an empty one is a heartbeat, and shows nothing."""
        if not text:
            return
        self._go_on()
        if self._after_hold:
            # The countdown had a line of its own, so one line end has been shown already.
            text, self._after_hold = text.removeprefix("\n"), False
        self._write(CONTROLS.sub("", text) if self._is_terminal else text)

    def note(self, note: Note) -> None:
        """Show that the answer is held, or that it goes on."""
        self._why = note.why or self._why
        if note.state != "holding" or note.until is None:
            self._go_on()
        elif note.until != self._held_until:
            self._hold(note.until, (note.until - (note.now or note.until)) / 1000)

    def leave(self) -> None:
        """Show that the person did not wait for the rest."""
        self._go_on()
        self._write("(left)" if self._at_line_start else " (left)")

    def end(self) -> None:
        """Leave the cursor at the start of a line, and say what cut the answer short."""
        self._go_on()
        if not self._at_line_start:
            self._write("\n")
        if self._why:
            say(f"holdgate: {self._why}")

    def _hold(self, until: int, seconds: float) -> None:
        self._go_on()
        self._held_until = until
        if not self._is_terminal:
            say(f"holding for {ceil(seconds)} s")
            return
        if not self._at_line_start:
            self._write("\n")
            self._after_hold = True
        # Known before it starts: Ctrl-C may come at any instant, and it must be found to be wiped.
        self._countdown = Countdown(self._out, until, seconds)
        self._countdown.start()

    def _go_on(self) -> None:
        self._held_until = None
        if self._countdown is not None:
            self._countdown.wipe()
            self._countdown = None

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._out.write(text)
            self._out.flush()


class Countdown:
    """A line that counts the seconds of a hold; nobody else may write until it is wiped.

    The gateway's own time says how long; the clock of this machine may be wrong.
    """

    def __init__(self, out: TextIO, until: int, seconds: float) -> None:
        self._out = out
        self._until = time.strftime("%H:%M:%S", time.localtime(until / 1000))
        self._end = time.monotonic() + seconds
        self._over = threading.Event()
        self._drawing = threading.Lock()

    def start(self) -> None:
        """Count in the background, while the answer is waited for."""
        threading.Thread(target=self._count, daemon=True).start()

    def wipe(self) -> None:
        """Stop counting, and leave the line empty."""
        with self._drawing:
            self._over.set()
            self._draw("")

    def _count(self) -> None:
        wait: float | None = 0.0
        while not self._over.wait(wait):
            left = max(0.0, self._end - time.monotonic())
            line = f"holding, {shown(ceil(left))} until {self._until}; Ctrl-C leaves"
            columns = shutil.get_terminal_size().columns
            with self._drawing:
                if not self._over.is_set():
                    self._draw(f"{DIM}{line[: columns - 1]}{BRIGHT}")
            # Up to the instant when another number is right; at nought, as long as it takes.
            wait = left - (ceil(left) - 1) if left else None

    def _draw(self, line: str) -> None:
        self._out.write(WIPE + line)
        self._out.flush()


def shown(seconds: int) -> str:
    """Write a span of time as a person reads it."""
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
