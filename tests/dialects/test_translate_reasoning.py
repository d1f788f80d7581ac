"""Proofs of reasoning travel through clients of another dialect and come back unharmed.

What travels so is nothing to an upstream of the client's own dialect.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.canonical import Reasoning
from gateway.dialects.seals import (
    as_encrypted,
    as_signature,
    reasoning_item,
    thinking,
)

proofs = st.text(min_size=1)
ids = st.sampled_from(["", "rs_1"])
Json = dict[str, Any]


@given(proofs)
def test_a_signature_through_a_client_of_responses(proof: str) -> None:
    thought = Reasoning("Hm.", signature=proof)
    assert reasoning_item("Hm.", as_encrypted(thought), "rs_made_up") == thought


@given(proofs)
def test_redacted_thinking_through_a_client_of_responses(proof: str) -> None:
    thought = Reasoning("", encrypted=proof, redacted=True)
    assert reasoning_item("", as_encrypted(thought), "rs_made_up") == thought


@given(proofs, ids)
def test_encrypted_content_through_a_client_of_messages(proof: str, item_id: str) -> None:
    thought = Reasoning("Hm.", encrypted=proof, id=item_id)
    assert thinking("Hm.", as_signature(thought)) == thought


def test_a_thought_that_nothing_proves_is_known_again() -> None:
    thought = Reasoning("Hm.")
    assert reasoning_item("Hm.", as_encrypted(thought), "") == thought
    assert thinking("Hm.", "holdgate:unproven") == thought


def test_proofs_at_home_are_what_they_are() -> None:
    assert thinking("Hm.", "abc") == Reasoning("Hm.", signature="abc")
    assert reasoning_item("Hm.", "abc", "rs_1") == Reasoning("Hm.", encrypted="abc", id="rs_1")


def thought(signature: str) -> Json:
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


TEXT = {"type": "text", "text": "Yes."}
CALL = {"type": "tool_use", "id": "c", "name": "f", "input": {"n": 1.50}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
ASKED = {"role": "user", "content": 'Is "holdgate:" a word?'}
ENABLED = {"type": "enabled", "budget_tokens": 1024}
CLEARING = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


def messages(*turns: list[Json], **more: Any) -> Json:
    roles = ("assistant", "user")
    told = [{"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns)]
    return {"model": "m", "messages": [ASKED, *told], **more}


def responses(*items: Json) -> Json:
    return {"model": "m", "input": [ASKED, *items], "odd": 1.50}


def reasoning(proof: Any) -> Json:
    return {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": proof}


SAID = {"type": "message", "role": "assistant", "content": "Yes."}


@pytest.mark.parametrize(
    "dialect, body, expected",
    [
        pytest.param(
            "anthropic-messages",
            messages([thought("holdgate:unproven"), TEXT], [TEXT]),
            messages([TEXT], [TEXT]),
            id="unproven thinking",
        ),
        pytest.param(
            "anthropic-messages",
            messages([thought("s"), thought("holdgate:responses:rs:e"), TEXT], [TEXT]),
            messages([thought("s"), TEXT], [TEXT]),
            id="of two thoughts one is theirs",
        ),
        pytest.param(
            "anthropic-messages",
            messages([TEXT], [TEXT], [thought("holdgate:unproven")]),
            messages([TEXT], [TEXT]),
            id="nothing but thinking",
        ),
        pytest.param(
            "anthropic-messages",
            messages(
                [thought("holdgate:unproven"), CALL],
                [RESULT],
                thinking=ENABLED,
                context_management=CLEARING,
            ),
            messages([CALL], [RESULT]),
            id="results of a turn that did not begin with thinking",
        ),
        pytest.param(
            "anthropic-messages",
            messages([thought("holdgate:unproven"), CALL], [RESULT], thinking=ENABLED),
            messages([CALL], [RESULT]),
            id="and nothing to clear",
        ),
        pytest.param(
            "anthropic-messages",
            messages([thought("holdgate:unproven"), CALL], [RESULT], thinking={"type": "adaptive"}),
            messages([CALL], [RESULT], thinking={"type": "adaptive"}),
            id="a model that thinks as it likes",
        ),
        pytest.param(
            "anthropic-messages",
            messages(
                [thought("holdgate:unproven"), TEXT],
                [TEXT],
                [thought("s"), CALL],
                [RESULT],
                thinking=ENABLED,
            ),
            messages([TEXT], [TEXT], [thought("s"), CALL], [RESULT], thinking=ENABLED),
            id="only an earlier turn lost its thinking",
        ),
        pytest.param(
            "openai-responses",
            responses(reasoning("holdgate:signature:s"), SAID, reasoning("gAAA"), SAID),
            responses(SAID, reasoning("gAAA"), SAID),
            id="reasoning items",
        ),
    ],
)
def test_what_is_sealed_is_taken_out_for_an_upstream_of_the_clients_dialect(
    dialect: str, body: Json, expected: Json
) -> None:
    assert (
        json.loads(DIALECTS[dialect].strip_foreign_reasoning(json.dumps(body).encode())) == expected
    )


@pytest.mark.parametrize(
    "dialect, body",
    [
        ("openai-chat", messages([TEXT], [TEXT])),
        ("anthropic-messages", messages([thought("s"), TEXT], [TEXT])),
        ("anthropic-messages", messages([thought("s"), {**TEXT, "text": "holdgate:x"}], [TEXT])),
        ("anthropic-messages", {"model": "m", "messages": ["holdgate:", 7]}),
        ("openai-responses", responses(reasoning("gAAA"), reasoning(None), SAID)),
        ("openai-responses", {"model": "m", "input": "holdgate:x"}),
    ],
)
def test_all_else_stays_to_the_byte(dialect: str, body: Json) -> None:
    sent = json.dumps(body, indent=1).encode()
    assert DIALECTS[dialect].strip_foreign_reasoning(sent) == sent
