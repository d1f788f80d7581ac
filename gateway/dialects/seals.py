"""Marks on reasoning that travels through a client of another dialect.

An upstream takes reasoning back only with what proves it: a signature (messages), an encrypted
content (responses). A client of the other dialect keeps what it was given and sends it back, so the
proof travels in the place it has for its own, marked for whom it is:

| proof                        | travels in          | as                               |
|------------------------------|---------------------|----------------------------------|
| messages: signature          | `encrypted_content` | `holdgate:signature:<signature>` |
| messages: redacted thinking  | `encrypted_content` | `holdgate:redacted:<data>`       |
| responses: encrypted content | `signature`         | `holdgate:responses:<id>:<data>` |
| none                         | either of them      | `holdgate:unproven`              |

An upstream of the client's own dialect would refuse any of these, so they are taken out before it
is asked: a conversation may go on with another model. The functions at the end write such a proof,
and read it again.
"""

from __future__ import annotations

from gateway.dialects.canonical import Reasoning

MARK = "holdgate:"
SIGNATURE = f"{MARK}signature:"
REDACTED = f"{MARK}redacted:"
RESPONSES = f"{MARK}responses:"
UNPROVEN = f"{MARK}unproven"

_IN_JSON = f'"{MARK}'.encode()


def may_be_sealed(body: bytes) -> bool:
    """Whether a request may carry such reasoning; costs next to nothing if not."""
    return body.find(_IN_JSON) >= 0


def is_sealed(proof: object) -> bool:
    """Whether a proof is marked for another dialect's upstream."""
    return isinstance(proof, str) and proof.startswith(MARK)


def as_signature(thought: Reasoning) -> str:
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
