"""Printing the effective configuration: TOML, secrets masked, with where each value came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gateway.config.problems import join, quote
from gateway.config.schema import ConfigKey, keys_of, names_variable
from gateway.config.secret import MASK, Secret, Url
from gateway.config.sections import Config, Documents, Headers, Numbers, Texts, Variables

Origins = Mapping[str, str]


def render(config: Config) -> str:
    """Return the configuration as TOML that is safe to show."""
    lines = list(_tables(config, "", config.origins))
    if config.demo:
        lines[:0] = ["# No upstream is configured: the embedded demo answers."]
    return "\n".join(lines).strip() + "\n"


def write_value(key: ConfigKey, value: Any) -> str:
    """Return a value as TOML, masked if it is a secret."""
    return WRITERS[key.kind](value)


def _tables(table: Any, where: str, origins: Origins) -> Iterator[str]:
    section: type = type(table)
    for name, key in keys_of(section).items():
        value, path = getattr(table, name), join(where, name)
        if key.section:
            yield from ("", f"[{path}]{_comment(path, origins)}", *_lines(value, path, origins))
            yield from _tables(value, path, origins)
        elif key.row:
            for row in value:
                yield from ("", f"[[{path}]]{_comment(path, origins)}", *_lines(row, path, {}))


def _lines(table: Any, where: str, origins: Origins) -> Iterator[str]:
    """Yield the plain keys of a table."""
    section: type = type(table)
    keys = keys_of(section).values()
    held = {key.name: getattr(table, key.name) for key in keys if not key.section}
    by_variable = any(held[key.name] for key in keys if names_variable(key))
    for key in keys:
        value = held.get(key.name)
        # A secret found in a variable is shown by the variable's name alone.
        if value is None or (by_variable and key.kind is Secret):
            continue
        yield f"{key.name} = {write_value(key, value)}{_comment(join(where, key.name), origins)}"


def _comment(path: str, origins: Origins) -> str:
    return f"  # from {origins[path]}" if path in origins else ""


def _array(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quote, texts))}]"


def _mask_table(pairs: Headers) -> str:
    return _write_table((quote(name), quote(MASK)) for name, _ in pairs)


def _text_table(pairs: Variables) -> str:
    return _write_table((quote(name), quote(value)) for name, value in pairs)


def _number_table(pairs: Numbers) -> str:
    return _write_table((name, format(value, "f")) for name, value in pairs)


def _write_table(pairs: Iterable[tuple[str, str]]) -> str:
    inner = ", ".join(f"{name} = {value}" for name, value in pairs)
    return f"{{ {inner} }}" if inner else "{}"


WRITERS: dict[Any, Callable[[Any], str]] = {
    bool: lambda value: str(value).lower(),
    int: str,
    str: quote,
    Url: lambda url: quote(url.masked),
    Secret: lambda _: quote(MASK),
    Texts: _array,
    Documents: _array,
    Headers: _mask_table,
    Variables: _text_table,
    Numbers: _number_table,
}
