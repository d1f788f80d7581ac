"""Carrying the proof of reasoning through a client whose dialect has no place for it.

An upstream takes reasoning back only with what proves it: a signature (messages), an encrypted
content (responses). A client of the other dialect keeps what it was given and sends it back, so the
proof travels in the place it has for its own, marked for whom it is:

| proof                          | travels in               | as                               |
|--------------------------------|--------------------------|----------------------------------|
| messages: signature            | `encrypted_content`      | `holdgate:signature:<signature>` |
| messages: redacted thinking    | `encrypted_content`      | `holdgate:redacted:<data>`       |
| responses: encrypted content   | `signature`              | `holdgate:responses:<id>:<data>` |

Answers are sealed with the `sealed_…` functions, requests are read with the others.
"""

from __future__ import annotations

from gateway.dialects.canonical import Reasoning

SIGNATURE = "holdgate:signature:"
REDACTED = "holdgate:redacted:"
RESPONSES = "holdgate:responses:"


def sealed_signature(signature: str) -> str:
    """Return a thinking block's signature as an encrypted content."""
    return SIGNATURE + signature


def sealed_redacted(data: str) -> str:
    """Return redacted thinking as an encrypted content."""
    return REDACTED + data


def sealed_encrypted(encrypted: str, item_id: str = "") -> str:
    """Return an encrypted content as a thinking block's signature."""
    return f"{RESPONSES}{item_id}:{encrypted}"


def thinking(text: str, signature: str) -> Reasoning:
    """Read a thinking block of messages."""
    if signature.startswith(RESPONSES):
        item_id, _, encrypted = signature.removeprefix(RESPONSES).partition(":")
        return Reasoning(text, encrypted=encrypted, id=item_id)
    return Reasoning(text, signature=signature)


def reasoning_item(text: str, encrypted: str, item_id: str) -> Reasoning:
    """Read a reasoning item of responses."""
    if encrypted.startswith(SIGNATURE):
        return Reasoning(text, signature=encrypted.removeprefix(SIGNATURE))
    if encrypted.startswith(REDACTED):
        return Reasoning(text, encrypted=encrypted.removeprefix(REDACTED), redacted=True)
    return Reasoning(text, encrypted=encrypted, id=item_id)
