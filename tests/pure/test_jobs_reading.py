"""What can be asked of jobs: flat and nested, each member, and the sentences about the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import make_job
from gateway.jobs.model import Draft, JobRules, Patch
from gateway.jobs.reader import (
    LONGEST_MESSAGE,
    LONGEST_NAME,
    LONGEST_TEXT,
    OURS,
    SETTABLE,
    default_name,
    flat,
    read_draft,
    read_job_id,
    read_patch,
)
from gateway.jobs.schedule.model import Every
from gateway.jobs.view import show_job

NOW = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z
RULES = JobRules()
HOURLY = {"kind": "every", "every_ms": 3_600_000}
LEAST = {"schedule": HOURLY, "message": "Look at the mail."}
FULL = {
    "name": "mail",
    "schedule": HOURLY,
    "session": "isolated",
    "message": "Look at the mail.",
    "enabled": False,
    "delete_after_run": True,
    "dedupe_key": "mail",
    "model": "fast",
    "job_id": "j-1",
    "session_id": "s-1",
    "agent_id": "post",
}


def draft(given: dict[str, Any]) -> Draft:
    return read_draft(given, NOW, RULES)


def patch(**members: Any) -> Patch:
    return read_patch({"job_id": "j-1", **members})


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as invalid:
        read()
    sentence = str(invalid.value)
    assert sentence.endswith(".")
    return sentence


def refused(**members: Any) -> str:
    """The sentence about a member, which is the same wherever it stands."""
    sentences = {
        refusal(lambda: draft({**LEAST, **members})),
        refusal(lambda: draft({"job": {**LEAST, **members}})),
        refusal(lambda: patch(**members)),
    }
    (sentence,) = sentences
    return sentence


# A job to be made


def test_the_least_there_can_be() -> None:
    assert draft(LEAST) == Draft(
        schedule=Every(3_600_000, anchor_ms=NOW),
        message="Look at the mail.",
        name="Look at the mail.",
        session_mode="main",
        enabled=True,
        delete_after_run=False,
        dedupe_key="",
        model="",
        job_id="",
        session_id="",
        agent_id="",
    )


def test_all_there_can_be() -> None:
    assert draft(FULL) == Draft(
        schedule=Every(3_600_000, anchor_ms=NOW),
        message="Look at the mail.",
        name="mail",
        session_mode="isolated",
        enabled=False,
        delete_after_run=True,
        dedupe_key="mail",
        model="fast",
        job_id="j-1",
        session_id="s-1",
        agent_id="post",
    )


def test_a_schedule_in_words() -> None:
    said = draft({"schedule_text": "every 5 minutes", "message": "x"})
    assert said.schedule == Every(300_000, anchor_ms=NOW)


def test_a_schedule_wins_over_words() -> None:
    assert draft({**LEAST, "schedule_text": "every 5 minutes"}) == draft(LEAST)


WITHOUT_MESSAGE = {name: value for name, value in FULL.items() if name != "message"}


@pytest.mark.parametrize(
    "given",
    [
        {"job": FULL},
        {**WITHOUT_MESSAGE, "payload": {"message": "Look at the mail."}},
        {"job": {**WITHOUT_MESSAGE, "payload": {"message": "Look at the mail."}}},
        {"job": WITHOUT_MESSAGE, "message": "Look at the mail."},
        {"job": WITHOUT_MESSAGE, "payload": {"message": "Look at the mail."}},
        {"job": FULL, "name": "another", "message": "another"},
        {**FULL, "message": "another", "payload": {"message": "Look at the mail."}},
        {**FULL, "payload": {}},
        {**FULL, "payload": {"message": None}},
        {**FULL, "payload": None, "job": None, "schedule_text": None},
        {**FULL, "job": {"name": None}},
        {name: f"  {value}\n" if isinstance(value, str) else value for name, value in FULL.items()},
    ],
)
def test_every_form_means_the_same(given: dict[str, Any]) -> None:
    assert draft(given) == draft(FULL)
    assert read_patch(given) == read_patch(FULL)
    assert read_job_id(given) == "j-1"
    assert draft(flat(given)) == draft(FULL)


@pytest.mark.parametrize(
    "message, name",
    [
        ("short", "short"),
        ("x" * 24, "x" * 24),
        ("0123456789012345678901234567890", "012345678901234567890123"),
        ("two\nlines\tand\u2028three", "two lines and three"),
        ("每天早上九点提醒我" * 3, "每天早上九点提醒我每天早上九点提醒我每天早上九点"),
    ],
)
def test_the_name_of_a_job_that_is_given_none(message: str, name: str) -> None:
    for more in ({}, {"name": None}, {"name": ""}, {"name": "  "}):
        assert draft({**LEAST, "message": message, **more}).name == name
    assert default_name(message) == name


def test_a_name_stands_on_one_line() -> None:
    assert draft({**LEAST, "name": " one\ntwo\x7f"}).name == "one two "
    assert patch(name="one\r\ntwo").name == "one  two"


def test_what_is_null_is_absent() -> None:
    assert draft(dict.fromkeys(SETTABLE) | LEAST) == draft(LEAST)
    assert patch(**dict.fromkeys(set(SETTABLE) - {"job_id"})) == Patch(job_id="j-1", schedule={})


# What is to change


def test_nothing_is_to_change() -> None:
    assert patch() == Patch(
        job_id="j-1",
        schedule={},
        schedule_text="",
        message=None,
        name=None,
        session_mode=None,
        enabled=None,
        delete_after_run=None,
        dedupe_key=None,
        model=None,
        session_id=None,
        agent_id=None,
    )


def test_everything_is_to_change() -> None:
    assert read_patch({**FULL, "schedule_text": "hourly"}) == Patch(
        job_id="j-1",
        schedule=HOURLY,
        schedule_text="hourly",
        message="Look at the mail.",
        name="mail",
        session_mode="isolated",
        enabled=False,
        delete_after_run=True,
        dedupe_key="mail",
        model="fast",
        session_id="s-1",
        agent_id="post",
    )


def test_what_may_be_taken_away() -> None:
    taken = patch(name="", dedupe_key=" ", model="")
    assert (taken.name, taken.dedupe_key, taken.model) == ("", "", "")


def test_a_job_that_was_shown_may_be_sent_back() -> None:
    job = make_job(draft(LEAST), "j-1", "me", "s-1", "post", NOW, RULES)
    shown = to_builtins(show_job(job))
    assert shown.keys() - set(SETTABLE) == OURS
    back = read_patch(shown)
    assert back.job_id == "j-1"
    assert back.message == job.message
    assert draft(shown).schedule == job.schedule


@pytest.mark.parametrize("given", [{}, {"job_id": None}, {"job": {"job_id": " "}}, {"job": {}}])
def test_which_job_must_be_said(given: dict[str, Any]) -> None:
    sentence = refusal(lambda: read_patch(given))
    assert sentence == "job_id is missing; use one that list shows."
    assert refusal(lambda: read_job_id(given)) == sentence


def test_to_name_a_job_nothing_else_is_looked_at() -> None:
    assert read_job_id({"job_id": "j-1", "name": 5, "what": "ever"}) == "j-1"


# Refusals


def test_a_message_must_be_there() -> None:
    missing = "message is missing; say what to send when the job is due."
    assert refusal(lambda: draft({"schedule": HOURLY})) == missing
    assert refusal(lambda: draft({"schedule": HOURLY, "payload": {"message": None}})) == missing


@pytest.mark.parametrize("message", ["", " ", "\n\t "])
def test_a_message_must_say_something(message: str) -> None:
    empty = "message is empty; say what to send when the job is due."
    assert refused(message=message) == empty
    assert refused(payload={"message": message}) == empty


def test_a_schedule_must_be_there() -> None:
    assert "schedule" in refusal(lambda: draft({"message": "x"}))


@pytest.mark.parametrize(
    "name, most",
    [
        ("message", LONGEST_MESSAGE),
        ("name", LONGEST_NAME),
        ("dedupe_key", LONGEST_TEXT),
        ("model", LONGEST_TEXT),
        ("job_id", LONGEST_TEXT),
        ("session_id", LONGEST_TEXT),
        ("agent_id", LONGEST_TEXT),
        ("schedule_text", LONGEST_TEXT),
    ],
)
def test_texts_have_a_longest(name: str, most: int) -> None:
    assert getattr(patch(**{name: f" {'é' * most} "}), name) == "é" * most
    assert refused(**{name: "é" * (most + 1)}) == (
        f"{name} has {most + 1} characters; make it shorter, at most {most} characters."
    )


def test_the_limits_are_those_of_the_specification() -> None:
    assert (LONGEST_MESSAGE, LONGEST_NAME) == (16_384, 128)
    assert len(default_name("x" * 100)) == 24


@pytest.mark.parametrize("broken", ["a\x00b", "a\ud800b"])
def test_what_no_store_can_hold(broken: str) -> None:
    for name in ("message", "name", "dedupe_key", "session_id"):
        assert refused(**{name: broken}) == (f"{name} contains an invalid character; remove it.")


@pytest.mark.parametrize(
    "value, kind",
    [
        (5, "a number"),
        (1.5, "a number"),
        (True, "true or false"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
@pytest.mark.parametrize("name", ["message", "name", "session", "dedupe_key", "schedule_text"])
def test_texts_must_be_texts(name: str, value: object, kind: str) -> None:
    assert refused(**{name: value}) == f"{name} must be a string, not {kind}."


@pytest.mark.parametrize("value, kind", [("true", "a string"), (1, "a number"), ([], "a list")])
@pytest.mark.parametrize("name", ["enabled", "delete_after_run"])
def test_truth_is_true_or_false(name: str, value: object, kind: str) -> None:
    assert refused(**{name: value}) == f"{name} must be true or false, not {kind}."


@pytest.mark.parametrize("value", ["MAIN", "new", "", "main,isolated"])
def test_a_session_is_main_or_isolated(value: str) -> None:
    assert refused(session=value) == (
        "session must be 'main', to continue the conversation, or 'isolated', to start a new one."
    )


@pytest.mark.parametrize("name", ["payload", "schedule"])
@pytest.mark.parametrize("value, kind", [("x", "a string"), ([HOURLY], "a list"), (5, "a number")])
def test_objects_must_be_objects(name: str, value: object, kind: str) -> None:
    assert refused(**{name: value}).startswith(f"{name} must be an object, not {kind}; send for")


def test_a_job_must_be_an_object() -> None:
    sentence = refusal(lambda: draft({"job": "mail"}))
    assert sentence.startswith("job must be an object, not a string; put the job's members into it")
    assert refusal(lambda: read_job_id({"job": ["mail"]})).startswith("job must be an object")


def test_what_is_no_json_at_all_is_refused_too() -> None:
    assert refused(name=object()) == "name must be a string, not that."


@pytest.mark.parametrize("name", ["every_ms", "prompt", "", "next_run", "jobs"])
def test_other_members_are_refused_by_their_name(name: str) -> None:
    sentence = refused(**{name: "x"})
    assert sentence.startswith(f"A job has no member '{name}'; it may have job_id, name, schedule,")


def test_an_endless_name_is_not_repeated_whole() -> None:
    assert len(refused(**{"x" * 10_000: 1})) < 300


def test_a_payload_has_a_message_only() -> None:
    sentence = "payload has no member 'text'; it may have message."
    assert refused(payload={"text": "x"}) == sentence
    assert refused(payload={"message": "x", "text": "x"}) == sentence


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=6,
)
PARTS = st.sampled_from(["kind", "at", "every_ms", "cron", "tz", "message", "x"])
ANY_JOB = st.dictionaries(
    st.sampled_from([*SETTABLE, *OURS, "x"]),
    st.one_of(ANY_JSON, st.text(), st.booleans(), st.dictionaries(PARTS, ANY_JSON)),
)


@given(st.one_of(ANY_JOB, st.fixed_dictionaries({"job": ANY_JOB}, optional={"job_id": ANY_JSON})))
def test_any_json_is_read_or_refused(members: dict[str, Any]) -> None:
    for read in (draft, read_patch, read_job_id):
        with suppress(InvalidInput):
            read(members)
