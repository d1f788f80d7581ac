"""Where values come from: the file, the environment, the command line. Later ones win."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.config.problems import InvalidValue, Problem, hint, join, nearest, quote
from gateway.config.reader import Problems, decode_json, read_key, read_table
from gateway.config.schema import PREFIX, ConfigKey, settings, variable_of
from gateway.config.sections import Config, Documents, Texts

FILE_NAME = "holdgate.toml"

# Names with a history; of several for one key the later wins.
ALIASES = (
    ("HOLDGATE_SESSION_DIR", "server.session_dir"),
    ("ROUTECODEX_SESSION_DIR", "server.session_dir"),
    ("ROUTECODEX_CLOCK_NTP", "clock.ntp.enabled"),
    ("ROUTECODEX_CLOCK_NTP_SERVERS", "clock.ntp.servers"),
    ("ROUTECODEX_CLOCK_NTP_STALE_AFTER_MS", "clock.ntp.stale_after_ms"),
    ("ROUTECODEX_CLOCK_NTP_TIMEOUT_MS", "clock.ntp.timeout_ms"),
    ("ROUTECODEX_STOPMESSAGE_BD_MODE", "stop_message.bd_mode"),
)

WORDS = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


class Given(NamedTuple):
    """A value somebody set, and who did."""

    value: Any
    origin: str


Layer = dict[str, Given]


def find_file(path: Path | None, base: Path) -> Path | None:
    """Return the named file, else `holdgate.toml` if the base directory has one."""
    if path is None and (base / FILE_NAME).exists():
        return Path(FILE_NAME)
    return path


def from_file(path: Path | None, base: Path, problems: Problems) -> Layer:
    """Read the file, if there is one."""
    if path is None:
        return {}
    title = str(path) if str(path).isprintable() else quote(str(path))
    raw = _parse_file(base / path, title, problems)
    values = read_table(Config, raw, "", problems)
    return {name: Given(value, title) for name, value in values.items()}


def from_environment(environ: Mapping[str, str], problems: Problems) -> Layer:
    """Read the variables that are named after keys."""
    paths = {variable_of(path): path for path in settings()}
    layer: Layer = {}
    for name in sorted(environ):
        if name in paths:
            layer |= _variable(name, paths[name], environ[name], problems)
        elif name.startswith(PREFIX) and "__" in name:
            problems.append(Problem(join("", name), _explain_unknown(name, paths)))
    return layer


def from_aliases(environ: Mapping[str, str], problems: Problems) -> Layer:
    """Read the variables with names of their own; an empty one counts as not set."""
    layer: Layer = {}
    for name, path in ALIASES:
        if text := environ.get(name):
            layer |= _variable(name, path, text, problems)
    return layer


def from_overrides(overrides: Mapping[str, object], problems: Problems) -> Layer:
    """Read what the command line sets, by dotted names; None is not set."""
    layer: Layer = {}
    for path, raw in overrides.items():
        if raw is not None:
            layer |= _override(path, raw, problems)
    return layer


def _parse_file(path: Path, title: str, problems: Problems) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        problems.append(Problem(title, f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError:
        problems.append(Problem(title, "is not valid UTF-8"))
    except (ValueError, RecursionError) as error:
        problems.append(_syntax_problem(title, str(error)))
    return {}


def _syntax_problem(title: str, message: str) -> Problem:
    """Put the line of a TOML error where editors look for it."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message)
    if not found:
        return Problem(title, f"not valid TOML: {message}")
    return Problem(f"{title}:{found[2]}:{found[3]}", f"not valid TOML: {found[1]}")


def _variable(name: str, path: str, text: str, problems: Problems) -> Layer:
    key = settings()[path]
    try:
        raw = _raw(key, text)
    except InvalidValue as unfit:
        problems.append(Problem(name, str(unfit)))
        return {}
    # A row's problems are named as those of the file are; of a plain key the variable is to blame.
    where = path if key.row else name
    values = read_key(key, raw, where, problems)
    return {path: Given(values[where], name)} if values else {}


def _raw(key: ConfigKey, text: str) -> object:
    """Turn text into what a file would hold; text that cannot be turned is judged as text."""
    if key.row:
        return decode_json(text)
    return FROM_TEXT.get(key.kind, str)(text)


def _integer(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text


def _items(text: str) -> object:
    if text.lstrip().startswith("["):
        return decode_json(text)
    return [item.strip() for item in text.split(",") if item.strip()]


FROM_TEXT: dict[Any, Callable[[str], object]] = {
    bool: lambda text: WORDS.get(text.strip().lower(), text),
    int: _integer,
    Texts: _items,
    Documents: decode_json,
}


def _explain_unknown(name: str, paths: Mapping[str, str]) -> str:
    table = name.partition("__")[0]
    if table in paths:
        return f"arrays of tables are set as a whole; set {table} to a JSON array"
    # The prefix, which all have in common, would make any two names look alike.
    names = [known.removeprefix(PREFIX) for known in paths]
    meant = nearest(name.removeprefix(PREFIX), names)
    return "unknown variable" + (f"; did you mean {PREFIX}{meant}?" if meant else "")


def _override(path: str, raw: object, problems: Problems) -> Layer:
    key = settings().get(path)
    if key is None:
        problems.append(Problem(path, f"unknown setting{hint(path, settings())}"))
        return {}
    values = read_key(key, raw, path, problems)
    return {name: Given(value, "the command line") for name, value in values.items()}
