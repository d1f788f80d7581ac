"""Credentials: found where the configuration says they are, and kept out of sight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar

from gateway.config.checks import printable
from gateway.config.problems import Problem, join, quote_short
from gateway.config.reader import Problems, read_key
from gateway.config.schema import keys_of, names_variable
from gateway.config.secret import Secret
from gateway.config.sections import Config, KeySection, UpstreamSection, WebhookSection

Holder = TypeVar("Holder", UpstreamSection, KeySection, WebhookSection)

SUFFIX = "_env"


def with_credentials(config: Config, environ: Mapping[str, str], problems: Problems) -> Config:
    """Return the configuration with every secret in its place, and of keys only the hash."""

    def resolve_rows(table: str, rows: tuple[Holder, ...]) -> tuple[Holder, ...]:
        return tuple(
            _resolve(row, f"{table}[{index}]", environ, problems) for index, row in enumerate(rows)
        )

    def require(table: str, secrets: Iterable[object], message: str) -> None:
        for index, secret in enumerate(secrets):
            if not secret and not _has_problem(where := f"{table}[{index}]", problems):
                problems.append(Problem(where, message))

    keys = tuple(_hash_key(key) for key in resolve_rows("keys", config.keys))
    require("keys", (key.sha256 for key in keys), "needs one of key, key_env, key_sha256")
    webhooks = resolve_rows("webhooks", config.webhooks)
    needs_secret = "needs secret or secret_env: the gateway signs what it posts with it"
    require("webhooks", (hook.secret for hook in webhooks), needs_secret)
    upstreams = tuple(
        _with_headers(row, f"upstreams[{index}].headers_env", environ, problems)
        for index, row in enumerate(resolve_rows("upstreams", config.upstreams))
    )
    return replace(config, keys=keys, upstreams=upstreams, webhooks=webhooks)


def _resolve(row: Holder, where: str, environ: Mapping[str, str], problems: Problems) -> Holder:
    """Return the row with the secret its variable holds; a row has one secret, in one form."""
    forms = [name for name in _forms(type(row)) if getattr(row, name)]
    if len(forms) > 1:
        problems.append(Problem(where, f"{' and '.join(forms)} exclude each other; give one"))
    elif forms and forms[0].endswith(SUFFIX):
        return _fetch_secret(row, forms[0], where, environ, problems)
    return row


def _fetch_secret(
    row: Holder, form: str, where: str, environ: Mapping[str, str], problems: Problems
) -> Holder:
    variable = getattr(row, form)
    where = join(where, form)
    if _has_problem(where, problems):
        return row
    if not environ.get(variable):
        problems.append(Problem(where, _say_missing(variable, environ)))
        return row
    name = form.removesuffix(SUFFIX)
    section: type = type(row)
    found = read_key(keys_of(section)[name], environ[variable], where, problems)
    changes: dict[str, Any] = {name: found.get(where)}
    return replace(row, **changes)


def _with_headers(
    row: UpstreamSection, where: str, environ: Mapping[str, str], problems: Problems
) -> UpstreamSection:
    """Return the upstream with the headers whose values are in the environment."""
    if _has_problem(where, problems):
        return row
    found = []
    for name, variable in row.headers_env:
        value = Secret(environ.get(variable, ""))
        if not value.reveal():
            problems.append(Problem(where, _say_missing(variable, environ)))
        for complaint in printable(value):
            problems.append(Problem(where, f"the value of {quote_short(name)}: {complaint}"))
        found.append((name, value))
    return replace(row, headers_found=tuple(found))


def _say_missing(variable: str, environ: Mapping[str, str]) -> str:
    state = "empty" if variable in environ else "not set"
    return f"the environment variable {variable} is {state}"


def _forms(section: type) -> tuple[str, ...]:
    """Return the keys of a section that hold a secret, or say where it is to be found."""
    keys = keys_of(section).items()
    return tuple(
        name
        for name, key in keys
        if key.kind is Secret or names_variable(key) or name.endswith("_command")
    )


def _hash_key(row: KeySection) -> KeySection:
    if row.key is None:
        return row
    digest = sha256(row.key.reveal().encode()).hexdigest()
    return replace(row, key=None, key_sha256=Secret(digest))


def _has_problem(where: str, problems: Problems) -> bool:
    """Tell whether a table has a problem already, so that what follows from it is not one more."""
    return any(
        problem.where == where or problem.where.startswith(f"{where}.") for problem in problems
    )
