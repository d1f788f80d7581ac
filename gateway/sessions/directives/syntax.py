"""Reads the inside of a `<**…**>` as a directive.

To *recognise* a directive means to know that it is one, so that it can be removed from the text. To
*read* it means to parse its value, which may fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from gateway.sessions.directives.model import (
    AllowOnly,
    Clear,
    ClearReminders,
    ClearStopMessage,
    Directive,
    Exclude,
    ForceRoute,
    PreferRoute,
    SetReminder,
    SetStopMessage,
    SetStopMessageFile,
    TakeBack,
    Target,
    Unreadable,
)

ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff"
BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + ZERO_WIDTH
LONGEST_SHOWN = 40
LONGEST_COUNT = 9

# Chinese input methods write ： ， ！ ＃ 。 and “ ”: they mean the same as the ASCII signs.
_BLANK = f"[{re.escape(BLANKS)}]*+"
_COMMA = "[,，]"
_LIST_COMMA = "[,，、]"
_DOT = "[.．。]"
_PLAIN = r'"(?:[^"\\]++|\\.)*+"'
_CURLY = r"“(?:[^“”\\]++|\\.)*+”"
_WIDE = r"＂(?:[^＂\\]++|\\.)*+＂"
_QUOTED = f"{_PLAIN}|{_CURLY}|{_WIDE}"
_STOP = f"stopMessage{_BLANK}[:：]"
_CLOCK = f"clock{_BLANK}[:：]"

_HEADS = {
    "stopMessage": re.compile(_STOP, re.IGNORECASE),
    "clock": re.compile(_CLOCK, re.IGNORECASE),
    "clear": re.compile(r"clear\Z", re.IGNORECASE),
    "!": re.compile("[!！]"),
    "#": re.compile("[#＃]"),
    "@": re.compile("[@＠]"),
}
_LISTS = frozenset("!#@")
# No backslash outside strings: a quote after one would be read differently from different starts,
# and hostile text could cause the same part to be scanned again and again.
_ENCLOSED = re.compile(
    rf"<\*\*{_BLANK}(?:"
    rf"{_STOP}{_BLANK}(?:{_QUOTED}){_BLANK}(?:{_COMMA}[^<>*]*+)?"
    rf'|{_CLOCK}{_BLANK}[{{｛](?:[^"<>*\\]++|{_PLAIN})*+'
    r")\*\*>",
    re.IGNORECASE | re.DOTALL,
)
_FILE = f"<{_BLANK}file:"
_GUARDED = re.compile(f'["“＂]|{_FILE}', re.IGNORECASE)
_GUARDED_VALUE = re.compile(
    rf"(?:(?P<text>{_QUOTED})|{_FILE}//(?P<file>[^<>]*+)>)"
    rf"{_BLANK}(?:{_COMMA}(?P<count>.*+))?",
    re.IGNORECASE | re.DOTALL,
)
_COMMAS = re.compile(_LIST_COMMA)
_DOTS = re.compile(_DOT)
_COUNTED = re.compile(rf"(.*){_COMMA}{_BLANK}(\d++)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "“": "“", "”": "”", "＂": "＂", "\\": "\\", "n": "\n"}
_MODEL = re.compile(rf'[^{re.escape(BLANKS)},，、"“”＂<>*]++')
_HEAD_END = re.compile('[:："“＂{(,，]')
_EXAMPLES = {"stopmessage": "stopMessage:text", "clock": "clock:clear", "clear": "clear"}
_KNOWN = "stopMessage:text, clock:clear, clear, !upstream, #upstream, @upstream, upstream.model"
_JSON_SIGNS = {"：": ":", "，": ",", "｛": "{", "｝": "}"}
_WIDE_JSON = re.compile(f"{_QUOTED}|[{''.join(_JSON_SIGNS)}]", re.DOTALL)
_UNFIT_IN_HEADER = re.compile(r'[^ -~]|["\\]')

Names = Mapping[str, str]


class _Unfit(Exception):
    """Why a directive cannot be read."""


class _Reminder(msgspec.Struct, forbid_unknown_fields=True):
    time: str
    message: str


_reminder = msgspec.json.Decoder(_Reminder)


@dataclass(frozen=True, slots=True)
class Form:
    """A directive that was recognised: its keyword, and the rest that is still to be read."""

    keyword: str
    rest: str


def spellings(upstreams: Collection[str]) -> Names:
    """Return the configured names by their accepted spellings: exact, or in other letter case."""
    folded = {name.casefold(): name for name in sorted(upstreams, reverse=True)}
    return folded | {name: name for name in upstreams}


def find_enclosed_end(text: str, start: int) -> int | None:
    """Return the end of the directive at `start` if its value is quoted or JSON; else None.

    In quotes and in JSON strings `**>` does not end a directive.
    """
    found = _ENCLOSED.match(text, start)
    return found.end() if found else None


def recognise(inside: str, names: Names) -> Form | None:
    """Return which directive this is; None if it is none."""
    inside = inside.strip(BLANKS)
    for keyword, head in _HEADS.items():
        if found := head.match(inside):
            rest = inside[found.end() :].strip(BLANKS)
            return None if keyword in _LISTS and _is_prose(rest) else Form(keyword, rest)
    return Form("route", inside) if _is_route(inside, names) else None


def read_form(form: Form, names: Names) -> Directive | Unreadable:
    """Read a directive that was recognised."""
    try:
        return _READERS[form.keyword](form.rest, names)
    except _Unfit as unfit:
        return Unreadable(form.keyword, str(unfit))


def explain_unknown(inside: str, names: Names) -> Unreadable:
    """Return the reason why a mark is unknown, with the most similar directive as a hint."""
    inside = inside.strip(BLANKS)
    called = _HEAD_END.split(inside, maxsplit=1)[0].strip(BLANKS)
    near = _nearest(called[:LONGEST_SHOWN], names)
    hint = f"did you mean <**{near}**>?" if near else f"known directives: {_KNOWN}"
    return Unreadable("unknown", f"no directive is called '{_fit_header(called)}'; {hint}")


def _nearest(called: str, names: Names) -> str:
    """Return the directive that was probably meant, if any."""
    upstream, dot, model = _split_route(called)
    if dot:
        near = get_close_matches(upstream.casefold(), names, n=1)
        return f"{names[near[0]]}.{_fit_header(model) or 'model'}" if near else ""
    spelled = {**{name: f"!{names[name]}" for name in names}, **_EXAMPLES}
    near = get_close_matches(called.casefold(), spelled, n=1, cutoff=0.5)
    return spelled[near[0]] if near else ""


def _is_route(inside: str, names: Names) -> bool:
    upstream, _, model = _split_route(inside)
    return bool(_MODEL.fullmatch(model) and _find_configured(upstream, names))


def _split_route(word: str) -> tuple[str, str, str]:
    """Return upstream, dot and model."""
    dot = _DOTS.search(word)
    if dot is None:
        return word.strip(BLANKS), "", ""
    return word[: dot.start()].strip(BLANKS), dot[0], word[dot.end() :].strip(BLANKS)


def _is_prose(rest: str) -> bool:
    # No name contains a line break; a stray `<**!` must not remove paragraphs.
    return "\n" in rest and any("\n" in name.strip(BLANKS) for name in _COMMAS.split(rest))


def _stop_message(rest: str, names: Names) -> Directive:
    if rest.casefold() == "clear":
        return ClearStopMessage()
    if _GUARDED.match(rest):
        return _read_guarded(rest)
    counted = _COUNTED.fullmatch(rest)
    text, count = counted.groups() if counted else (rest, None)
    return SetStopMessage(_require_text(text.strip(BLANKS), "the text"), _repeats(count))


def _read_guarded(rest: str) -> Directive:
    """Read a stop message in quotes, or the name of its file."""
    value = _GUARDED_VALUE.fullmatch(rest)
    if value is None:
        raise _Unfit("the quote or file name is not closed, or more than a count follows it")
    repeats = _repeats(value["count"])
    if value["text"] is None:
        return SetStopMessageFile(
            _require_text(value["file"].strip(BLANKS), "the file name"), repeats
        )
    return SetStopMessage(_require_text(_unescape(value["text"][1:-1]), "the text"), repeats)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), text)


def _repeats(count: str | None) -> int | None:
    digits = (count or "").strip(BLANKS)
    readable = digits.isdecimal() and len(digits) <= LONGEST_COUNT
    return int(digits) or None if readable else None


def _require_text(text: str, what: str) -> str:
    if not text.strip(BLANKS):
        raise _Unfit(f"{what} is empty")
    return text


def _clock(rest: str, names: Names) -> Directive:
    if rest.casefold() == "clear":
        return ClearReminders()
    if not rest.startswith(("{", "｛")):
        raise _Unfit("use clear, or a JSON object with time and message")
    try:
        reminder = _reminder.decode(_WIDE_JSON.sub(_plain_json, rest))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _Unfit(f"the reminder cannot be read: {_fit_header(str(error), 100)}") from None
    return SetReminder(
        _require_text(reminder.time, "time"), _require_text(reminder.message, "message")
    )


def _plain_json(part: re.Match[str]) -> str:
    """Convert a string or sign to plain JSON; a string in plain quotes stays as it is."""
    text = part[0]
    if len(text) == 1:
        return _JSON_SIGNS[text]
    return text if text[0] == '"' else msgspec.json.encode(_unescape(text[1:-1])).decode()


def _clear(rest: str, names: Names) -> Directive:
    return Clear()


def _allow(rest: str, names: Names) -> Directive:
    targets = _targets(rest, names)
    if all(target.model is None for target in targets):
        return AllowOnly(tuple(target.upstream for target in targets))
    first, *others = targets
    if others or first.model is None:
        raise _Unfit("use a list of upstreams, or one upstream.model")
    return PreferRoute(first.upstream, first.model)


def _exclude(rest: str, names: Names) -> Directive:
    return Exclude(_targets(rest, names))


def _take_back(rest: str, names: Names) -> Directive:
    return TakeBack(_targets(rest, names))


def _force(rest: str, names: Names) -> Directive:
    upstream, _, model = _split_route(rest)
    return ForceRoute(_upstream(upstream, names), model)


def _targets(rest: str, names: Names) -> tuple[Target, ...]:
    words = [word for part in _COMMAS.split(rest) if (word := part.strip(BLANKS))]
    if not words:
        raise _Unfit("no upstream is named")
    return tuple(dict.fromkeys(_target(word, names) for word in words))


def _target(word: str, names: Names) -> Target:
    upstream, dot, model = _split_route(word)
    if dot and not _MODEL.fullmatch(model):
        raise _Unfit(f"no model is called '{_fit_header(model)}'")
    return Target(_upstream(upstream, names), model if dot else None)


def _upstream(written: str, names: Names) -> str:
    configured = _find_configured(written, names)
    if configured is None:
        near = get_close_matches(written.casefold(), names, n=1)
        hint = f"; did you mean '{names[near[0]]}'?" if near else ""
        raise _Unfit(f"no upstream is called '{_fit_header(written)}'{hint}")
    return configured


def _find_configured(written: str, names: Names) -> str | None:
    written = written.strip(BLANKS)
    return names.get(written) or names.get(written.casefold())


def _fit_header(text: str, longest: int = LONGEST_SHOWN) -> str:
    return _UNFIT_IN_HEADER.sub("?", text[:longest])


_READERS: Mapping[str, Callable[[str, Names], Directive]] = {
    "stopMessage": _stop_message,
    "clock": _clock,
    "clear": _clear,
    "!": _allow,
    "#": _exclude,
    "@": _take_back,
    "route": _force,
}
