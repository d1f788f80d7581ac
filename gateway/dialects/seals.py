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
is asked: a conversation may go on with another model.
"""

from __future__ import annotations

MARK = "holdgate:"
SIGNATURE = f"{MARK}signature:"
REDACTED = f"{MARK}redacted:"
RESPONSES = f"{MARK}responses:"
UNPROVEN = f"{MARK}unproven"

_IN_JSON = f'"{MARK}'.encode()


def may_be_sealed(body: bytes) -> bool:
    """Whether a request may carry such reasoning; costs next to nothing if not."""
    return _IN_JSON in body


def is_sealed(proof: object) -> bool:
    """Whether a proof is marked for another dialect's upstream."""
    return isinstance(proof, str) and proof.startswith(MARK)
