"""Proofs of reasoning travel through clients of another dialect and come back unharmed."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.canonical import Reasoning
from gateway.dialects.translate.reasoning import (
    reasoning_item,
    sealed_encrypted,
    sealed_redacted,
    sealed_signature,
    thinking,
)

proofs = st.text(min_size=1)
ids = st.sampled_from(["", "rs_1"])


@given(proofs)
def test_a_signature_through_a_client_of_responses(proof: str) -> None:
    assert reasoning_item("Hm.", sealed_signature(proof), "rs_made_up") == Reasoning(
        "Hm.", signature=proof
    )


@given(proofs)
def test_redacted_thinking_through_a_client_of_responses(proof: str) -> None:
    assert reasoning_item("", sealed_redacted(proof), "rs_made_up") == Reasoning(
        "", encrypted=proof, redacted=True
    )


@given(proofs, ids)
def test_encrypted_content_through_a_client_of_messages(proof: str, item_id: str) -> None:
    assert thinking("Hm.", sealed_encrypted(proof, item_id)) == Reasoning(
        "Hm.", encrypted=proof, id=item_id
    )


def test_proofs_at_home_are_what_they_are() -> None:
    assert thinking("Hm.", "abc") == Reasoning("Hm.", signature="abc")
    assert reasoning_item("Hm.", "abc", "rs_1") == Reasoning("Hm.", encrypted="abc", id="rs_1")
