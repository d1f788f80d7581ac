"""What a configuration that was read again changes: what takes effect, and what needs a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from gateway.config.consistency import inconsistencies
from gateway.config.problems import ConfigError
from gateway.config.schema import settings
from gateway.config.sections import Config, LimitsSection

# The tables that take effect for new requests, and what their rows are called in the log. Nothing
# of it is a secret.
RELOADED: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "upstreams": lambda row: row.id,
        "models": lambda row: row.name,
        "keys": lambda row: row.owner,
        "agents": lambda row: row.id,
        "webhooks": lambda row: row.owner,
    }
)
# Limits of what is made once, at the start: connections, and helper processes.
FIXED_LIMITS = frozenset(
    {
        "header_bytes",
        "receive_idle_ms",
        "receive_total_ms",
        "connections",
        "connections_per_address",
        "slow_reader_ms",
        "due_followups",
        "offload_bytes",
        "offload_processes",
        "offload_ms",
        "offload_queue_bytes",
    }
)
LIMITS = "limits."


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """What a new configuration changes, by names; a value may be a secret, so none is here."""

    tables: Mapping[str, tuple[str, ...]]
    """Such as `models_added`, with the names of the rows."""
    limits: tuple[str, ...]
    """The limits that take effect."""
    restart: tuple[str, ...]
    """The keys that take effect at the next start."""


def apply_reloadable(running: Config, found: Config) -> Config:
    """Return the running configuration with all of a new one that needs no restart.

    Raise `ConfigError` if they do not fit together, such as no keys on an address that stays.
    """
    limits = {name: getattr(running.limits, name) for name in FIXED_LIMITS}
    merged = replace(
        running,
        **{table: getattr(found, table) for table in RELOADED},
        limits=replace(found.limits, **limits),
        demo=found.demo,
        file=found.file,
        origins=found.origins,
    )
    if problems := tuple(inconsistencies(merged)):
        raise ConfigError(problems)
    return merged


def compare(running: Config, found: Config) -> ConfigChanges:
    """Say what a new configuration changes."""
    tables: dict[str, tuple[str, ...]] = {}
    for table, name in RELOADED.items():
        tables |= _compare_rows(table, getattr(running, table), getattr(found, table), name)
    names = [field.name for field in fields(LimitsSection) if field.name not in FIXED_LIMITS]
    limits = [n for n in names if getattr(running.limits, n) != getattr(found.limits, n)]
    return ConfigChanges(tables, tuple(limits), tuple(_find_fixed(running, found)))


def _compare_rows(
    table: str, before: tuple[Any, ...], after: tuple[Any, ...], name: Callable[[Any], str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield which rows are new, gone or different; an owner may have several of the same name."""
    old, new = _group(before, name), _group(after, name)
    changes = {
        "added": [each for each in new if each not in old],
        "removed": [each for each in old if each not in new],
        "changed": [each for each in new if each in old and new[each] != old[each]],
    }
    for kind, names in changes.items():
        if names:
            yield f"{table}_{kind}", tuple(names)


def _group(rows: tuple[Any, ...], name: Callable[[Any], str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(name(row), []).append(row)
    return found


def _find_fixed(running: Config, found: Config) -> Iterator[str]:
    """Yield the keys that differ and need a restart, by their dotted names."""
    for path in settings():
        table, _, limit = path.partition(".")
        if table in RELOADED or (path.startswith(LIMITS) and limit not in FIXED_LIMITS):
            continue
        if _look_up(running, path) != _look_up(found, path):
            yield path


def _look_up(config: Config, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)
    return value
