"""stopMessage as real clients read it: the gateway as anybody starts it, and its demo model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from tests.clients import langchain_python, openai_node, openai_python
from tests.clients.conftest import fail_unless, no_proxy
from tests.clients.node import provide
from tests.clients.processes import Running, running
from tests.clients.reading import Ask, Form

__all__ = ["no_proxy"]

PROMPT = (
    r'<**stopMessage:"demo: say=\"And on.\" delay_ms=1",3**>'
    + '\ndemo: say="It begins." delay_ms=1'
)
ALL = "It begins.\n\nAnd on.\n\nAnd on.\n\nAnd on."
CLIENTS = (openai_python.CLIENT, openai_node.CLIENT, langchain_python.CLIENT)
FORMS = tuple(form for client in CLIENTS for form in client.forms)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway as anybody starts it."""
    home = tmp_path_factory.mktemp("gateway")
    with running("gateway", "serve", "--port", "0", home=home, settings={}) as started:
        yield started


@pytest.fixture(scope="module")
def node() -> None:
    """Install the Node clients."""
    fail_unless(provide)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_four_turns_are_one_message(
    form: Form, gateway: Running, request: pytest.FixtureRequest
) -> None:
    for need in form.needs:
        request.getfixturevalue(need)
    asks = [Ask(PROMPT, usage=True)] + [Ask(PROMPT, stream=False)] * form.reads_whole
    for reading in form.read(gateway.url, asks):
        assert reading.failure is None
        assert reading.text == ALL
        assert (reading.role, reading.finishes) == ("assistant", ("stop",))
        assert len(reading.ids) == 1
        # The first turn says two tokens, as do the three that follow.
        assert reading.tokens is not None
        assert reading.tokens.output == 8


def test_a_session_named_by_the_clients_own_means(gateway: Running) -> None:
    """What is left over is used by the next request, whichever way it names the session."""
    extra = {"session_id": "by-body"}
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        first = client.chat.completions.with_raw_response.create(
            model="demo",
            messages=[
                {"role": "user", "content": '<**stopMessage:"x",1**>\ndemo: say="A" finish=length'}
            ],
            metadata=extra,
        )
        second = client.chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": 'demo: say="B"'}],
            extra_headers={"Session_Id": "by-body"},
        )
    assert first.headers["x-holdgate-directive"] == "set"
    assert first.headers["x-holdgate-session"] == "by-body"
    assert first.parse().choices[0].message.content == "A"
    content = second.choices[0].message.content or ""
    assert content.startswith("B\n\n")
