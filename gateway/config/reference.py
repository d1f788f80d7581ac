"""The tables of docs/configuration.md, printed by `python -m gateway.config.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.problems import join
from gateway.config.rendering import write_value
from gateway.config.schema import ConfigKey, keys_of
from gateway.config.sections import Config


def reference() -> str:
    """Return what the sections are about, and one Markdown table for each."""
    lines = ["| section | about |", "|---|---|"]
    lines += [f"| `{path}` | {below.__doc__ or ''} |" for path, _, below in _sections(Config)]
    for path, key, below in _sections(Config):
        lines += _table(path, key, below)
    return "\n".join(lines) + "\n"


def _sections(section: type, where: str = "") -> Iterator[tuple[str, ConfigKey, type]]:
    for name, key in keys_of(section).items():
        if below := key.section or key.row:
            yield join(where, name), key, below
            yield from _sections(below, join(where, name))


def _table(path: str, key: ConfigKey, section: type) -> Iterator[str]:
    title = f"[[{path}]]" if key.row else f"[{path}]"
    yield from ("", f"### `{title}`", "", section.__doc__ or "")
    yield from ("", "| key | default | meaning |", "|---|---|---|")
    yield from (_row(item) for item in keys_of(section).values() if not item.section)


def _row(key: ConfigKey) -> str:
    return f"| `{key.name}` | {_default(key)} | {key.doc} |"


def _default(key: ConfigKey) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return "unset"
    return f"`{write_value(key, key.default)}`"


if __name__ == "__main__":
    print(reference(), end="")
