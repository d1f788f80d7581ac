"""The sections as data: which keys there are, what each holds, and how its name is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from gateway.config.checks import Check, OneOf
from gateway.config.problems import join
from gateway.config.sections import Config

PREFIX = "HOLDGATE_"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: what it may hold, what it holds when nobody says, and what it means."""

    name: str
    kind: Any
    default: Any
    required: bool = False
    doc: str = ""
    checks: tuple[Check, ...] = ()

    @property
    def section(self) -> type | None:
        """The section that stands below this key, if it is a table."""
        return _section(self.kind)

    @property
    def row(self) -> type | None:
        """The section that each of its tables is, if it is an array of tables."""
        return _section(next(iter(get_args(self.kind)), None))


@cache
def keys_of(section: type) -> dict[str, ConfigKey]:
    """Return the keys of a section, in the order they are written down."""
    hints = get_type_hints(section, include_extras=True)
    keys = (_key(field, hints[field.name]) for field in fields(section))
    return {key.name: key for key in keys if key.doc or key.section or key.row}


@cache
def settings() -> dict[str, ConfigKey]:
    """Return every key that has one place in the whole configuration, by its dotted name."""
    return dict(_settings(Config, ""))


def camel(name: str) -> str:
    """Return the other accepted spelling of a key."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def variable_of(path: str) -> str:
    """Return the environment variable that sets a dotted name."""
    return PREFIX + path.upper().replace(".", "__")


def names_variable(key: ConfigKey) -> bool:
    """Tell whether a key names the environment variable that contains the secret of its table."""
    return key.kind is str and key.name.endswith("_env")


def _section(kind: Any) -> type | None:
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _settings(section: type, where: str) -> Iterator[tuple[str, ConfigKey]]:
    for name, key in keys_of(section).items():
        path = join(where, name)
        if key.section:
            yield from _settings(key.section, path)
        else:
            yield path, key


def _key(field: Field[Any], hint: Any) -> ConfigKey:
    kind, notes = _split_hint(hint)
    required = field.default is MISSING and field.default_factory is MISSING
    return ConfigKey(
        name=field.name,
        kind=str if get_origin(kind) is Literal else kind,
        default=_default(field, kind),
        required=required,
        doc=next((note for note in notes if isinstance(note, str)), ""),
        checks=_choices(kind) + tuple(note for note in notes if callable(note)),
    )


def _split_hint(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Part a field's type from the notes on it; an optional type counts as the type."""
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if isinstance(kind, UnionType):
        (kind,) = set(get_args(kind)) - {NoneType}
    return kind, tuple(notes)


def _choices(kind: Any) -> tuple[Check, ...]:
    return (OneOf(get_args(kind)),) if get_origin(kind) is Literal else ()


def _default(field: Field[Any], kind: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    # A required key that is missing leaves an empty value behind: the problem is reported, and
    # the other keys of its table can still be judged.
    return kind() if field.default_factory is MISSING else field.default_factory()
