"""What a value must be beyond its type: each check yields a complaint for each fault it finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import SplitResult, urlsplit
from zoneinfo import available_timezones

from gateway.config.budgets import read_budget
from gateway.config.problems import hint, nearest, quote_short
from gateway.config.secret import Secret

Check = Callable[[Any], Iterator[str]]

# The largest integer that every JSON reader keeps exact.
LARGEST = 2**53

WEB_SCHEMES = ("http", "https")
OWN_HEADERS = frozenset({"host", "connection", "content-length", "transfer-encoding"})
PRICES = ("input", "cached", "output")
NEEDED_PRICES = ("input", "output")
# Nobody asks for more than a dollar for a token.
HIGHEST_PRICE = 1_000_000
# Then the cost of a token is a whole number of millionths of a millionth of a dollar.
PRICE_DIGITS = 6
POSTGRES = ("postgresql://", "postgres://")
# Of a name in PostgreSQL, beside what is added for a channel.
LONGEST_SCHEMA = 50

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@A-Z]+")
_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_ROUTE = re.compile(r"[^/]+/.+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OTHER_HOME = re.compile(r"~[^/]")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}|\{model\})*)+")


@dataclass(frozen=True, slots=True)
class Range:
    """An integer between two bounds, both included."""

    low: int
    high: int = LARGEST

    def __call__(self, value: int) -> Iterator[str]:
        if self.low <= value <= self.high:
            return
        bounds = f"at least {self.low}" if value < self.low else f"at most {self.high}"
        yield f"{value} is out of range; it must be {bounds}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    choices: tuple[str, ...]

    def __call__(self, value: str) -> Iterator[str]:
        if value not in self.choices:
            # The empty word is the default, and nobody writes it.
            allowed = [choice for choice in self.choices if choice]
            yield f"{quote_short(value)} is not one of {', '.join(allowed)}{hint(value, allowed)}"


@dataclass(frozen=True, slots=True)
class Each:
    """A list of which every item passes a check."""

    check: Check

    def __call__(self, values: tuple[Any, ...]) -> Iterator[str]:
        for value in values:
            yield from self.check(value)


def budget(value: str) -> Iterator[str]:
    """Accept a budget such as `20 USD/month`."""
    if value:
        try:
            read_budget(value)
        except ValueError as error:
            yield f"{quote_short(value)}: {error}"


def not_empty(value: object) -> Iterator[str]:
    """Accept anything but an empty text or list."""
    if not value:
        yield "must not be empty"


def identifier(value: str) -> Iterator[str]:
    """Accept a word that can stand in a route and in a directive, so without slash or dot."""
    if not _IDENTIFIER.fullmatch(value):
        yield f"{quote_short(value)} is not an id; use letters, digits, - and _"


def variable(value: str) -> Iterator[str]:
    """Accept the name of an environment variable; never repeat it, it may be a pasted secret."""
    if value and not _VARIABLE.fullmatch(value):
        yield "must be the name of an environment variable"


def printable(secret: Secret) -> Iterator[str]:
    """Accept a secret that can be sent in a header."""
    text = secret.reveal()
    if not (text.isascii() and text.isprintable()):
        yield "must be printable ASCII, without line breaks"


def digest(secret: Secret) -> Iterator[str]:
    """Accept the hex form of a SHA-256."""
    if not _SHA256.fullmatch(secret.reveal()):
        yield "must be the 64 hex digits of a SHA-256"


def web_url(value: str) -> Iterator[str]:
    """Accept an absolute http or https URL without query or fragment."""
    parts = _split(value)
    if parts is None or parts.scheme not in WEB_SCHEMES or not parts.hostname:
        yield "must be a URL that begins with http:// or https:// and names a host"
    elif "?" in value or "#" in value:
        yield "must not have a query or a fragment"


def origin(value: str) -> Iterator[str]:
    """Accept what a browser sends as Origin."""
    if not _ORIGIN.fullmatch(value):
        yield f"{quote_short(value)} is not an origin; write scheme://host or scheme://host:port"


def route(value: str) -> Iterator[str]:
    """Accept an upstream and a model."""
    if not _ROUTE.fullmatch(value):
        yield f"{quote_short(value)} is not a route; write <upstream>/<model>"


def header(value: tuple[str, Secret]) -> Iterator[str]:
    """Accept a header that can be sent as it is."""
    name, text = value
    yield from _header_name(name)
    for complaint in printable(text):
        yield f"the value of {quote_short(name)}: {complaint}"


def header_variable(value: tuple[str, str]) -> Iterator[str]:
    """Accept a header that can be sent, and the name of a variable."""
    name, text = value
    yield from _header_name(name)
    for complaint in variable(text):
        yield f"the value of {quote_short(name)} {complaint}"


def parameter(value: tuple[str, Secret]) -> Iterator[str]:
    """Accept a parameter of a URL; whatever it holds is escaped."""
    if not value[0]:
        yield "the name of a parameter must not be empty"


def price(value: tuple[tuple[str, Decimal], ...]) -> Iterator[str]:
    """Accept what tokens cost: members there are, each a number that can be counted with."""
    meant = {name if name in PRICES else nearest(name, PRICES) for name, _ in value}
    for name in NEEDED_PRICES:
        # A misspelt name is one mistake, not two.
        if name not in meant:
            yield f"{name} is required; write 0 if it costs nothing"
    for name, number in value:
        if name not in PRICES:
            advice = hint(name, PRICES) or f"; valid are {', '.join(PRICES)}"
            yield f"unknown key {quote_short(name)}{advice}"
        elif not 0 <= number <= HIGHEST_PRICE:
            yield f"{name} must be a number from 0 to {HIGHEST_PRICE}"
        elif number != round(number, PRICE_DIGITS):
            yield f"{name} must not have more than {PRICE_DIGITS} digits after the point"


def url_path(value: str) -> Iterator[str]:
    """Accept a path, in which `{model}` may stand for the name of a model, or nothing."""
    if value and not _PATH.fullmatch(value):
        yield (
            f"{quote_short(value)} is not a path; begin with /, write {{model}} for the model, "
            "and put parameters into query"
        )


def directory(value: str) -> Iterator[str]:
    """Accept a path whose home directory, if any, is one's own."""
    if _OTHER_HOME.match(value):
        yield "~user is not supported; write the whole path"


def time_zone(value: str) -> Iterator[str]:
    """Accept an IANA time zone name, or nothing."""
    if value and value not in (known := available_timezones()):
        yield f"{quote_short(value)} is not an IANA time zone{hint(value, known)}"


def store_url(value: str) -> Iterator[str]:
    """Accept the stores this version has."""
    if value in ("", "memory:") or value.startswith(POSTGRES):
        return
    if not re.fullmatch(r"sqlite:///.+", value):
        yield 'must be "", sqlite:///path, memory: or postgresql://…'


def postgres_url(value: str) -> Iterator[str]:
    """Accept the address of a PostgreSQL, or nothing."""
    if value and not value.startswith(POSTGRES):
        yield "must be postgresql://…, or empty"


def schema_name(value: str) -> Iterator[str]:
    """Accept a name that PostgreSQL keeps whole."""
    if len(value.encode()) > LONGEST_SCHEMA or not value.isprintable():
        yield f"must be at most {LONGEST_SCHEMA} printable characters"


def _header_name(name: str) -> Iterator[str]:
    if not _HEADER_NAME.fullmatch(name):
        yield f"{quote_short(name)} is not a header name"
    if name.lower() in OWN_HEADERS:
        yield f"{quote_short(name)} is a header the gateway sets itself"


def _split(url: str) -> SplitResult | None:
    # urlsplit drops line breaks silently, and whoever uses the URL later would not.
    if not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
