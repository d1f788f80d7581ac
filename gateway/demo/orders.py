"""The `demo:` line: how a prompt tells the demo model precisely what to do.

Each key is a field of `Orders`, which says how the key is written, read, and what it means; the
documentation lists exactly these. What the model says of its own accord is an `Orders` as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import cycle, islice
from typing import Any, Literal

from gateway.demo.dialect import CompleteAnswer, Fail, UnreadableRequest
from gateway.demo.phrases import HAN

TOKEN = re.compile(rf"[{HAN}]{{1,2}}|\s*[^\s{HAN}]+|\s+")
LONGEST_PIECE = 12


def tokens_of(text: str) -> tuple[str, ...]:
    """Cut a text into words with the space before them, or one or two Han signs."""
    return tuple(TOKEN.findall(text))


def pieces_of(arguments: str) -> tuple[str, ...]:
    """Cut a call's arguments into several short pieces."""
    size = min(LONGEST_PIECE, max(1, -(-len(arguments) // 3)))
    return tuple(arguments[at : at + size] for at in range(0, len(arguments), size))


FILLER = tokens_of("These words come one by one from a script that knows how many to say. ")
SHORT = 12
MOST_TOKENS = 1_000_000
MOST_BYTES = 64 * 1024 * 1024
MOST_MS = 3_600_000


class InvalidOrder(UnreadableRequest):
    """A `demo:` line that cannot be obeyed; its text says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="bad_demo_line", param="messages")


@dataclass(frozen=True, slots=True)
class OrderValue:
    """What stands after `key=`, and the number after `@`, if any."""

    text: str
    mark: int | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the answer unfinished: close, reset, or never say another word."""

    how: Literal["close", "reset", "hang"]


@dataclass(frozen=True, slots=True)
class Marker:
    """What comes after so many pieces of the answer: bytes, a wait in seconds, or its end."""

    after: int
    event: bytes | float | Fail | Break


@dataclass(frozen=True, slots=True)
class OrderedCall:
    """A tool call that was ordered."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of the line: how it is written, read, and what it means."""

    form: str
    read: Callable[[OrderValue], Any]
    meaning: str
    repeats: bool = False


def plain(value: OrderValue) -> str:
    """Read a value that takes no `@`."""
    if value.mark is not None:
        raise InvalidOrder("takes no @")
    return value.text


def number(least: int, most: int) -> Callable[[OrderValue], int]:
    """Make a reader of whole numbers between two bounds."""

    def read(value: OrderValue) -> int:
        text = plain(value)
        if not re.fullmatch(r"[0-9]{1,12}", text) or not least <= int(text) <= most:
            raise InvalidOrder(f"takes a whole number from {least} to {most}")
        return int(text)

    return read


def line_text(value: OrderValue) -> str:
    """Read a text that goes into a header, so it must stay on its line."""
    text = plain(value)
    if not text.isascii() or not text.isprintable():
        raise InvalidOrder("takes printable ASCII only")
    return text


def header(value: OrderValue) -> tuple[str, str]:
    """Read `name: value`."""
    name, colon, text = line_text(value).partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise InvalidOrder('takes "name: value"')
    return name.lower(), text.strip()


def quiet(value: OrderValue) -> Marker:
    """Read `N@K`: milliseconds, then the place."""
    return Marker(value.mark or 0, duration(OrderValue(value.text)) / 1000)


def raw(value: OrderValue) -> Marker:
    """Read bytes written as text, one character a byte, and their place."""
    if any(ord(character) > 255 for character in value.text):
        raise InvalidOrder("takes characters up to \\u00ff, one for each byte")
    return Marker(value.mark or 0, value.text.encode("latin-1"))


def flag(value: OrderValue) -> bool:
    """Read a key that has no value."""
    if value != OrderValue(""):
        raise InvalidOrder("takes no value")
    return True


count = number(0, MOST_TOKENS)
duration = number(0, MOST_MS)


def key(form: str, read: Callable[[OrderValue], Any], meaning: str, default: Any = None) -> Any:
    """Make the field of a key; one that may be repeated has a tuple, one without a value is off."""
    described = OrderKey(form, read, meaning, repeats=default == ())
    return field(default=False if read is flag else default, metadata={"key": described})


@dataclass(frozen=True)
class AnswerOrders:
    """What is said and called, and when."""

    say: str | None = key('say="…"', plain, "say exactly this text (a JSON string)")
    tokens: int | None = key("tokens=N", count, "say N tokens; the text is repeated or cut to fit")
    size: int | None = key("size=N", number(1, MOST_BYTES), "make every token N characters long")
    delay_ms: int = key(
        "delay_ms=N", duration, "wait N ms after each token; 0 sends all in a burst", 30
    )
    endless: bool = key("endless", flag, "never stop talking")
    first_ms: int = key("first_ms=N", duration, "stay silent for N ms before the headers", 0)
    quiet_ms: tuple[Marker, ...] = key(
        "quiet_ms=N@K", quiet, "stay silent for N ms after K tokens", ()
    )
    tool: tuple[OrderedCall, ...] = key(
        "tool=NAME",
        plain,
        "call this tool, after the text if there is any; in Responses `namespace.tool` calls one "
        "of a namespace",
        default=(),
    )
    args: tuple[()] = key(
        "args={…}",
        plain,
        'the arguments of that call; `"…"` for text that is no JSON',
        default=(),
    )
    """Always empty: the arguments are put into the call before them."""
    finish: str | None = key("finish=REASON", plain, "end with this finish reason, known or not")
    usage: bool = key("usage", flag, "send the usage frame though it was not asked for")
    no_usage: bool = key("no_usage", flag, "send no usage though it was asked for")


@dataclass(frozen=True)
class FailureOrders:
    """How the answer fails or breaks off."""

    status: int | None = key(
        "status=N", number(200, 599), "answer with an error body and this HTTP status"
    )
    code: str | None = key("code=TEXT", plain, "the `code` of that error")
    message: str | None = key('message="…"', plain, "the `message` of that error")
    retry_after: int | None = key(
        "retry_after=N", number(0, 86400), "add the header `retry-after: N`"
    )
    error_after: int | None = key(
        "error_after=K", count, "send an error frame after K tokens; `status` chooses which"
    )
    drop_after: int | None = key("drop_after=K", count, "close the connection after K tokens")
    reset_after: int | None = key("reset_after=K", count, "reset the connection after K tokens")
    hang_after: int | None = key(
        "hang_after=K", count, "say nothing more after K tokens, and stay connected"
    )
    reset_at: int | None = key(
        "reset_at=N", number(0, MOST_BYTES), "reset after N bytes of the body"
    )
    drop: bool = key("drop", flag, "close the connection instead of answering")
    reset: bool = key("reset", flag, "reset the connection instead of answering")
    hang: bool = key("hang", flag, "never answer")


@dataclass(frozen=True)
class FormatOrders:
    """How the answer ends, and how its bytes look."""

    no_done: bool = key("no_done", flag, "leave out the end mark (`data: [DONE]`)")
    two_done: bool = key("two_done", flag, "send the end mark twice")
    after_done: int = key("after_done=K", count, "say K more tokens after the end mark", 0)
    split: int = key("split=N", number(1, 65536), "write N bytes at a time, each piece a chunk", 0)
    crlf: bool = key("crlf", flag, "end lines with CR LF")
    cr: bool = key("cr", flag, "end lines with CR")
    bom: bool = key("bom", flag, "start the stream with a byte order mark")
    gzip: bool = key("gzip", flag, "compress the body, whatever the client accepts")
    raw: tuple[Marker, ...] = key(
        'raw="…"@K', raw, "write these bytes, one character each, after K tokens", ()
    )
    content_type: str | None = key("content_type=TEXT", line_text, "say this content type instead")
    header: tuple[tuple[str, str], ...] = key(
        'header="name: value"', header, "add a header to the answer", ()
    )


@dataclass(frozen=True)
class Orders(FormatOrders, FailureOrders, AnswerOrders):
    """One `demo:` line, read; the fields of the last base come first."""

    @property
    def refusal(self) -> Fail | Break | None:
        """What is done instead of answering, if anything."""
        if self.drop or self.reset or self.hang:
            return Break("close" if self.drop else "reset" if self.reset else "hang")
        if self.status is None or self.error_after is not None:
            return None
        return self._make_failure(self.status)

    @cached_property
    def marks(self) -> list[Marker]:
        """What happens after so many pieces, in order of place."""
        ends = (
            (self.error_after, self._make_failure(self.status or 500)),
            (self.drop_after, Break("close")),
            (self.reset_after, Break("reset")),
            (self.hang_after, Break("hang")),
        )
        marks = [Marker(after, event) for after, event in ends if after is not None]
        return sorted((*self.quiet_ms, *self.raw, *marks), key=lambda mark: mark.after)

    @cached_property
    def spoken(self) -> tuple[str, ...]:
        """The tokens to say; without a word about them, as many as the marks need."""
        words = tokens_of(self.say) if self.say is not None else FILLER
        if self.tokens is not None:
            wanted = self.tokens
        elif self.say is not None:
            wanted = len(words)
        else:
            wanted = 0 if self.tool else max([SHORT, *(mark.after for mark in self.marks)])
        if (size := self.size) is not None:
            words = tuple((word * (size // len(word) + 1))[:size] for word in words)
        return tuple(islice(cycle(words), wanted))

    @property
    def pieces(self) -> int:
        """How many pieces there are of text and arguments."""
        return len(self.spoken) + sum(len(pieces_of(call.arguments)) for call in self.tool)

    @property
    def reason(self) -> str:
        """Why the answer ends."""
        return self.finish or ("tool_calls" if self.tool else "stop")

    @property
    def whole(self) -> CompleteAnswer:
        """All that is said and called, and how it ends."""
        calls = tuple((call.name, call.arguments) for call in self.tool)
        return CompleteAnswer("".join(self.spoken), calls, self.pieces, self.reason)

    def _make_failure(self, status: int) -> Fail:
        message = self.message or f"The demo model was told to fail with {status}."
        return Fail(status, message, code=self.code, retry_after=self.retry_after)


KEYS: dict[str, OrderKey] = {one.name: one.metadata["key"] for one in fields(Orders)}
KEY = re.compile(r"\s*([A-Za-z_]+)(=?)")
BARE = re.compile(r"(\S*?)(?:@([0-9]{1,9}))?(?=\s|$)")
MARK = re.compile(r"(?:@([0-9]{1,9}))?(?=\s|$)")
JSON = json.JSONDecoder()


def parse(line: str) -> Orders:
    """Read what stands after `demo:`, or say what is wrong with it."""
    found: dict[str, Any] = {}
    line, at = line.strip(), 0
    while at < len(line):
        match = KEY.match(line, at)
        if match is None:
            start = line[at:][:40]
            raise InvalidOrder(f"A demo: line is made of key=value pairs; {start!r} is none.")
        name, at = match[1], match.end()
        value, at = read_value(line, at) if match[2] else (OrderValue(""), at)
        add_pair(found, name, value)
    orders = Orders(**found)
    if (orders.tokens or 1) * (orders.size or 1) > MOST_BYTES:
        raise InvalidOrder(f"tokens times size may be {MOST_BYTES} at most.")
    check_marks(orders)
    return orders


def check_marks(orders: Orders) -> None:
    """Refuse what would happen after the end of the answer."""
    pieces = orders.pieces
    late = [mark.after for mark in orders.marks if mark.after > pieces]
    if late and orders.refusal is None:
        raise InvalidOrder(f"The answer has {pieces} tokens; nothing can happen after {late[0]}.")


def read_value(line: str, at: int) -> tuple[OrderValue, int]:
    """Read a JSON string, a JSON object, or text up to the next space."""
    opening = line[at : at + 1]
    if opening not in ('"', "{"):
        bare = BARE.match(line, at)
        assert bare is not None  # it matches nothing at all as well
        return OrderValue(bare[1], int(bare[2]) if bare[2] else None), bare.end()
    try:
        decoded, end = JSON.raw_decode(line, at)
    except ValueError as error:
        raise InvalidOrder(f"A demo: line holds broken JSON: {error}.") from None
    mark = MARK.match(line, end)
    if mark is None:
        raise InvalidOrder(f"A demo: line needs a space after {line[at:end][:40]}.")
    text = decoded if opening == '"' else line[at:end]
    return OrderValue(text, int(mark[1]) if mark[1] else None), mark.end()


def add_pair(found: dict[str, Any], name: str, value: OrderValue) -> None:
    """Add one pair to what was found so far."""
    key = KEYS.get(name)
    if key is None:
        raise InvalidOrder(f"Unknown key {name!r} in a demo: line; known are {', '.join(KEYS)}.")
    if name in found and not key.repeats:
        raise InvalidOrder(f"The key {name} stands twice in a demo: line.")
    try:
        read = key.read(value)
    except InvalidOrder as error:
        raise InvalidOrder(f"The key {name} {error}; write {key.form}.") from None
    if name == "tool":
        found["tool"] = (*found.get("tool", ()), OrderedCall(read))
    elif name == "args":
        if "tool" not in found:
            raise InvalidOrder("The key args belongs after a tool=NAME.")
        *before, last = found["tool"]
        found["tool"] = (*before, OrderedCall(last.name, read))
    else:
        found[name] = (*found.get(name, ()), read) if key.repeats else read
