"""The table of clients: a new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from . import curl, eventsource_node, httpx_reader, langchain_python, openai_node, openai_python
from .reading import Client, Form
from .speakers import AI_SDK_CHAT, CHAT, Speaker

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
CHAT_SPEAKERS = (
    *(
        Speaker(client.name, CHAT, client.version, tuple(form.name for form in client.forms))
        for client in CLIENTS
    ),
    AI_SDK_CHAT,
)
"""The same clients, and one more, with upstreams of all dialects."""

Test = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a test shows, and of whom."""

    what: str
    clients: frozenset[str | Speaker]


def shows(what: str, forms: Iterable[Form] = FORMS) -> Callable[[Test], Test]:
    """Run a test with each of these forms; the documentation's table says what it shows."""
    listed = tuple(forms)
    told = tells(what, *(form.client for form in listed))
    return lambda test: told(pytest.mark.parametrize("form", listed, indirect=True, ids=str)(test))


def tells(what: str, *clients: str | Speaker) -> Callable[[Test], Test]:
    """Say in the documentation's table what a test shows of these."""

    def mark(test: Test) -> Test:
        test.__dict__.setdefault("shown", []).append(Shown(what, frozenset(clients)))
        return test

    return mark
