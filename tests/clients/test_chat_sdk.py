"""Chat Completions as real clients read them: an answer of several turns, held in between, is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from . import langchain_python
from .catalogue import CHAT_SPEAKERS, FORMS, SDK_FORMS, tells
from .processes import Running
from .reading import Ask, Form
from .speakers import DIALECTS
from .spoken import (
    IDLE,
    IMPATIENT,
    PROMPT,
    Answers,
    Hear,
    Heard,
    count_all_turns,
    gateway,
    hear_all,
    heard_in_node,
    is_one_answer,
    were_held_and_ended_well,
)


def heard_by(form: Form) -> Hear:
    """Make the way to have an answer read by one of the clients of this dialect."""

    def hear(url: str, model: str, session: str) -> Heard:
        ask = Ask(PROMPT, model=model, usage=True, session=session, idle=IDLE)
        (reading,) = form.read(url, [ask])
        assert reading.failure is None
        assert reading.role == "assistant"
        assert reading.end_marks == (0 if form in SDK_FORMS else 1)
        assert reading.tokens is not None
        (ident,), (stop,) = reading.ids, reading.finishes
        return Heard(
            (reading.text,),
            stop,
            ident,
            reading.tokens.input,
            reading.tokens.output,
            beats=reading.beats,
            calls=len(reading.calls),
        )

    return hear


CHUNKED: Mapping[str, Hear] = {str(form): heard_by(form) for form in FORMS}
"""These show heartbeats."""
READERS: Mapping[str, Hear] = {
    **CHUNKED,
    "Vercel AI SDK streamText()": heard_in_node("ai-chat"),
    "Vercel AI SDK streamText(), @ai-sdk/openai-compatible": heard_in_node("ai-compatible"),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("chat")) as started:
        yield started


@pytest.fixture(scope="module")
def answers(running: Running, node: None, curl: None) -> Answers:
    """What each client read of each upstream."""
    return hear_all(running.url, READERS)


def test_the_table_names_every_form() -> None:
    assert list(READERS) == [use for speaker in CHAT_SPEAKERS for use in speaker.uses]


@tells(IMPATIENT, *(speaker for speaker in CHAT_SPEAKERS if speaker.name == langchain_python.NAME))
@tells(
    "a tool of the gateway, a stop message and a hold of 4 seconds, as one message", *CHAT_SPEAKERS
)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("reader", READERS)
def test_several_turns_are_one_message(reader: str, upstream: str, answers: Answers) -> None:
    heard = answers[reader, upstream].result()
    is_one_answer(heard)
    assert heard.stop == "stop"
    (text,) = heard.texts
    assert len(text.split("\n\n")) == 3
    if reader in CHUNKED:
        assert heard.beats >= 2


@tells("usage of all turns", *CHAT_SPEAKERS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_usage_is_that_of_all_turns(upstream: str, running: Running, answers: Answers) -> None:
    count_all_turns(running, upstream, answers)


def test_usage_is_the_same_whatever_the_upstream_speaks(answers: Answers) -> None:
    heard = [answer.result() for answer in answers.values()]
    assert len({(one.input, one.output) for one in heard}) == 1


@pytest.mark.usefixtures("answers")
def test_every_answer_was_held_and_ended_well(running: Running) -> None:
    were_held_and_ended_well(running, len(READERS))
