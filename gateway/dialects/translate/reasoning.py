"""Sealing the proof of reasoning for a client of another dialect, and reading it again."""

from __future__ import annotations

from gateway.dialects.canonical import Reasoning, Thought
from gateway.dialects.seals import REDACTED, RESPONSES, SIGNATURE, UNPROVEN


def as_signature(thought: Thought | Reasoning) -> str:
    """Return what proves a thought as the signature of a thinking block."""
    if thought.encrypted and not thought.redacted:
        return f"{RESPONSES}{thought.id}:{thought.encrypted}"
    return thought.signature


def as_encrypted(thought: Reasoning) -> str:
    """Return what proves a thought as the encrypted content of a reasoning item."""
    if thought.signature:
        return SIGNATURE + thought.signature
    if thought.redacted:
        return REDACTED + thought.encrypted
    return thought.encrypted or UNPROVEN


def thinking(text: str, signature: str) -> Reasoning:
    """Read a thinking block of messages."""
    if signature.startswith(RESPONSES):
        item_id, _, encrypted = signature.removeprefix(RESPONSES).partition(":")
        return Reasoning(text, encrypted=encrypted, id=item_id)
    return Reasoning(text, signature="" if signature == UNPROVEN else signature)


def reasoning_item(text: str, encrypted: str, item_id: str) -> Reasoning:
    """Read a reasoning item of responses."""
    if encrypted.startswith(SIGNATURE):
        return Reasoning(text, signature=encrypted.removeprefix(SIGNATURE))
    if encrypted.startswith(REDACTED):
        return Reasoning(text, encrypted=encrypted.removeprefix(REDACTED), redacted=True)
    return Reasoning(text, encrypted="" if encrypted == UNPROVEN else encrypted, id=item_id)
