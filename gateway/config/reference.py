"""The tables of docs/configuration.md, printed by `python -m gateway.config.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.problems import join
from gateway.config.rendering import written
from gateway.config.schema import Key, is_later, keys_of
from gateway.config.sections import Config

LATER_NOTE = "*Read and checked; takes effect in a later version.*"
LATER_MARK = "*(later)*"


def reference() -> str:
    """Return which sections are in effect, and one Markdown table for each."""
    overview = ("| section | in this version |", "|---|---|", *_overview())
    return "\n".join((*overview, "", *_tables(Config, ""))).strip() + "\n"


def _overview() -> Iterator[str]:
    for name, key in keys_of(Config).items():
        if below := key.section or key.row:
            yield f"| `{name}` | {_state(name, below)} |"


def _state(name: str, below: type) -> str:
    if is_later(name):
        return "read and checked, takes effect in a later version"
    some = any(is_later(join(name, key)) for key in keys_of(below))
    return f"in effect, but for the keys marked {LATER_MARK}" if some else "in effect"


def _tables(section: type, where: str) -> Iterator[str]:
    for name, key in keys_of(section).items():
        path = join(where, name)
        if below := key.section or key.row:
            title = f"[[{path}]]" if key.row else f"[{path}]"
            yield from (f"### `{title}`", "", (below.__doc__ or "").strip(), "")
            yield from (LATER_NOTE, "") if is_later(path) else ()
            yield from ("| key | default | meaning |", "|---|---|---|")
            yield from (_row(item, path) for item in keys_of(below).values() if not item.section)
            yield ""
            yield from _tables(below, path)


def _row(key: Key, where: str) -> str:
    later = not is_later(where) and is_later(join(where, key.name))
    meaning = f"{key.doc} {LATER_MARK}" if later else key.doc
    return f"| `{key.name}` | {_default(key)} | {meaning} |"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return "unset"
    return f"`{written(key, key.default)}`"


if __name__ == "__main__":
    print(reference(), end="")
