"""From raw tables to checked values: one walk over the schema, collecting every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, TypeVar

import msgspec

from gateway.config.presets import NO_PRESET, PRESETS, Preset
from gateway.config.problems import InvalidValue, Problem, join, nearest, quote_short
from gateway.config.schema import ConfigKey, camel, keys_of
from gateway.config.secret import MASK, Secret, Url
from gateway.config.sections import Documents, Headers, Json, Numbers, Texts, Variables

Problems = list[Problem]
Values = dict[str, Any]
T = TypeVar("T")

NOUNS = {
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    str: "a string",
    list: "an array",
    dict: "a table",
    type(None): "null",
}


def read_table(section: type, raw: Mapping[str, Any], where: str, problems: Problems) -> Values:
    """Return the values a table gives, by their dotted names."""
    keys = keys_of(section)
    given, meant = _match_names(keys, raw, where, problems)
    preset = _find_preset(given, meant)
    given = {**preset.values, **given}
    for name, key in keys.items():
        # A misspelt key is one mistake, not two.
        if (key.required or name in preset.needs) and name not in {*given, *meant}:
            needs = preset.needs.get(name)
            message = f"is required: {given['preset']} needs {needs}" if needs else "is required"
            problems.append(Problem(join(where, name), message))
    values: Values = {}
    for name, value in given.items():
        values |= read_key(keys[name], value, join(where, name), problems)
    return values


def read_key(key: ConfigKey, raw: object, where: str, problems: Problems) -> Values:
    """Return what one key gives: nothing if its type is wrong, several values if it is a table."""
    try:
        if key.section:
            return read_table(key.section, _table(raw, where), where, problems)
        value = _rows(key.row, raw, where, problems) if key.row else READERS[key.kind](raw)
    except InvalidValue as unfit:
        problems.append(Problem(where, str(unfit)))
        return {}
    problems += [Problem(where, complaint) for check in key.checks for complaint in check(value)]
    # A value that was complained about is passed on, so that the rest is judged as it was meant.
    return {where: value}


def build(section: type, values: Mapping[str, Any], where: str = "") -> Any:
    """Make a section of the values below a dotted name, and of defaults."""
    return section(
        **{
            name: build(key.section, values, join(where, name))
            if key.section
            else values.get(join(where, name), key.default)
            for name, key in keys_of(section).items()
        }
    )


def _match_names(
    keys: Mapping[str, ConfigKey], raw: Mapping[str, Any], where: str, problems: Problems
) -> tuple[Values, set[str | None]]:
    """Return what is given under the keys' proper names, and which keys unknown names may mean."""
    proper = {spelling: name for name in keys for spelling in (camel(name), name)}
    given: Values = {}
    meant: set[str | None] = set()
    for spelling, value in raw.items():
        if (name := proper.get(spelling)) is None:
            meant.add(nearest(spelling, keys))
            problems.append(_report_unknown(spelling, keys, where))
        elif name in given:
            problems.append(Problem(join(where, name), f"given twice, also as {camel(name)}"))
        else:
            given[name] = value
    return given, meant


def _find_preset(given: Values, meant: set[str | None]) -> Preset:
    """Return the preset that a table names; of an unknown one nobody knows what it would fill."""
    name = given.get("preset", "")
    if name == "":
        return NO_PRESET
    if not isinstance(name, str) or name not in PRESETS:
        meant.add("base_url")
        return NO_PRESET
    return PRESETS[name]


def _report_unknown(spelling: str, keys: Mapping[str, ConfigKey], where: str) -> Problem:
    noun = "key" if where else "section"
    meant = nearest(spelling, keys)
    advice = f"did you mean {join(where, meant)}?" if meant else f"valid are {', '.join(keys)}"
    return Problem(join(where, spelling), f"unknown {noun}; {advice}")


def _table(raw: object, where: str) -> dict[str, Any]:
    if isinstance(raw, dict):
        return raw
    raise InvalidValue(f"expected a table [{where}], got {_noun(raw)}")


def _rows(section: type, raw: object, where: str, problems: Problems) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        complaint = f"expected an array of tables [[{where}]], got {_noun(raw)}"
        if not isinstance(raw, dict):
            raise InvalidValue(complaint)
        problems.append(Problem(where, complaint))
    rows = raw if isinstance(raw, list) else [raw]
    return tuple(
        _row(section, item, f"{where}[{index}]", problems) for index, item in enumerate(rows)
    )


def _row(section: type, raw: object, where: str, problems: Problems) -> Any:
    if isinstance(raw, dict):
        return build(section, read_table(section, raw, where, problems), where)
    problems.append(Problem(where, f"expected a table, got {_noun(raw)}"))
    return build(section, {}, where)


def _noun(raw: object) -> str:
    return NOUNS.get(type(raw), f"a {type(raw).__name__}")


def _describe(raw: object) -> str:
    if isinstance(raw, str):
        return quote_short(raw)
    return str(raw).lower() if isinstance(raw, bool) else _noun(raw)


def _bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    raise InvalidValue(f"expected true or false, got {_describe(raw)}")


def _int(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise InvalidValue(f"expected an integer, got {_describe(raw)}")
    if raw.bit_length() > 63:
        raise InvalidValue("the integer is too large")
    return raw


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise InvalidValue(f"expected a string, got {_noun(raw)}")
    # Bytes of the environment that are not UTF-8 arrive as lone surrogates.
    if any("\ud800" <= letter <= "\udfff" for letter in raw):
        raise InvalidValue("is not valid UTF-8")
    if "\0" in raw:
        raise InvalidValue("must not contain the character U+0000")
    return raw


def _secret(raw: object) -> Secret:
    text = _text(raw)
    if not text:
        raise InvalidValue("must not be empty")
    if text == MASK:
        raise InvalidValue("is the mask of a secret; write the secret itself")
    return Secret(text)


def _texts(raw: object) -> Texts:
    items = _list(raw, "strings")
    if odd := [item for item in items if not isinstance(item, str)]:
        raise InvalidValue(f"expected an array of strings, but it contains {_noun(odd[0])}")
    if not all(items):
        raise InvalidValue("must not contain an empty string")
    return tuple(_text(item) for item in items)


def _documents(raw: object) -> Documents:
    return tuple(_document(item) for item in _list(raw, "tables"))


def _document(raw: object) -> Json:
    table = decode_json(raw) if isinstance(raw, str) else raw
    if not isinstance(table, dict):
        raise InvalidValue("every item must be a table or a JSON object")
    return Json(msgspec.json.encode(table).decode())


def _headers(raw: object) -> Headers:
    items = _items(raw, "strings")
    return tuple((name, _read_value(name, value, _secret)) for name, value in items)


def _variables(raw: object) -> Variables:
    items = _items(raw, "strings")
    return tuple((name, _read_value(name, value, _text)) for name, value in items)


def _numbers(raw: object) -> Numbers:
    items = _items(raw, "numbers")
    return tuple((name, _read_value(name, value, _number)) for name, value in items)


def _number(raw: object) -> Decimal:
    if not isinstance(raw, int | float) or isinstance(raw, bool):
        raise InvalidValue(f"expected a number, got {_describe(raw)}")
    if not isfinite(raw):
        raise InvalidValue("expected a number that is finite")
    # As it was written: a number is printed with the fewest digits that mean the same.
    return Decimal(str(raw))


def _items(raw: object, of: str) -> Iterable[tuple[str, object]]:
    if not isinstance(raw, dict):
        raise InvalidValue(f"expected a table of {of}, got {_noun(raw)}")
    return raw.items()


def _read_value(name: str, raw: object, read: Callable[[object], T]) -> T:
    try:
        return read(raw)
    except InvalidValue as unfit:
        raise InvalidValue(f"the value of {quote_short(name)}: {unfit}") from None


def _list(raw: object, of: str) -> list[Any]:
    if isinstance(raw, list | tuple):
        return list(raw)
    raise InvalidValue(f"expected an array of {of}, got {_noun(raw)}")


def decode_json(text: str) -> object:
    """Read a text as JSON; never repeat it, it may hold secrets."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidValue("is not valid JSON") from None


READERS: dict[Any, Callable[[object], Any]] = {
    bool: _bool,
    int: _int,
    str: _text,
    Url: lambda raw: Url(_text(raw)),
    Secret: _secret,
    Texts: _texts,
    Documents: _documents,
    Headers: _headers,
    Variables: _variables,
    Numbers: _numbers,
}
