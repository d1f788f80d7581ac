"""The table of clients: a new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from . import curl, eventsource_node, httpx_reader, langchain_python, openai_node, openai_python
from .reading import Client, Form
from .speakers import Speaker

CLIENTS: tuple[Client, ...] = (
    openai_python.CLIENT,
    openai_node.CLIENT,
    langchain_python.CLIENT,
    httpx_reader.CLIENT,
    eventsource_node.CLIENT,
    curl.CLIENT,
)
FORMS = tuple(form for client in CLIENTS for form in client.forms)
SDK_FORMS = tuple(form for client in CLIENTS if client.is_sdk for form in client.forms)
RAW_FORMS = tuple(form for form in FORMS if form not in SDK_FORMS)
WHOLE_FORMS = tuple(form for form in FORMS if form.reads_whole)

Test = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a test shows, and of whom."""

    what: str
    clients: frozenset[str | Speaker]


def shows(what: str, forms: Iterable[Form] = FORMS) -> Callable[[Test], Test]:
    """Run a test with each of these forms; the documentation's table says what it shows."""
    listed = tuple(forms)

    def mark(test: Test) -> Test:
        test.__dict__["shown"] = Shown(what, frozenset(form.client for form in listed))
        return pytest.mark.parametrize("form", listed, indirect=True, ids=str)(test)

    return mark


def tells(what: str, *clients: str | Speaker) -> Callable[[Test], Test]:
    """Say in the documentation's table what a test shows of these."""

    def mark(test: Test) -> Test:
        test.__dict__["shown"] = Shown(what, frozenset(clients))
        return test

    return mark
