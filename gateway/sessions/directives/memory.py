"""Decides whether the directives of a message act, or have acted already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from gateway.sessions.directives.model import ForceRoute, Found, Unreadable

REMEMBERED_MS = 30 * 60 * 1000
MOST_REMEMBERED = 256
MOST_SENT = 16
# The same message within this time is a retry, not a second request for the same.
RETRY_MS = 2000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sending of a request: what distinguishes a retry from another request."""

    request_id: str = ""
    idempotency_key: str = ""
    retries: int = 0
    """How often the client says it has sent this request before."""


NO_ATTEMPT = Attempt()


@dataclass(frozen=True)
class NewestMessage:
    """The newest user message of a request."""

    ordinal: int
    texts: tuple[str, ...] = ()
    alone: bool = False
    """Whether the request holds no other message of the user, and nothing of a model."""
    attempt: Attempt = NO_ATTEMPT

    @cached_property
    def fingerprint(self) -> str:
        """The digest that identifies the message: of its ordinal and its whole text."""
        return _digest(str(self.ordinal), *self.texts)

    def without_texts(self) -> NewestMessage:
        """Return the message with its fingerprint but without its texts, which may be long."""
        named = NewestMessage(self.ordinal, (), self.alone, self.attempt)
        named.__dict__["fingerprint"] = self.fingerprint
        return named

    def fingerprint_of(self, found: Found) -> str:
        """Return the digest that identifies one of its directives."""
        return _digest(self.fingerprint, found.source)


class SentMessage(msgspec.Struct, frozen=True, rename="camel"):
    """The last sending of a message that came without history and whose directives acted."""

    fingerprint: str
    sent_at_ms: int
    request_id: str = ""
    idempotency_hash: str = ""
    ended: bool = False
    """Whether its exchange ended normally; also False while it is running."""


@dataclass(frozen=True, slots=True)
class ChosenDirectives:
    """Which directives of a message act now, which have acted already, and what to remember."""

    new: tuple[Found, ...]
    unchanged: tuple[Found, ...]
    remembered: dict[str, int]


def choose_new(
    found: tuple[Found, ...],
    message: NewestMessage,
    seen: Mapping[str, int],
    sent: tuple[SentMessage, ...],
    now_ms: int,
) -> ChosenDirectives:
    """Separate the directives that act now from those seen in the last half hour.

    Seeing a directive again renews the memory, so a tool loop may last longer than that. Directives
    for one request always act, and unreadable ones are always reported; neither is remembered.
    """
    known = {name: at for name, at in seen.items() if now_ms - at < REMEMBERED_MS}
    lasting = (f for f in found if not isinstance(f.directive, ForceRoute | Unreadable))
    names = {f: message.fingerprint_of(f) for f in lasting}
    acted = known
    if message.alone and names and not is_retry(message, sent, now_ms):
        acted = {}
    unchanged = tuple(f for f in found if names.get(f) in acted)
    new = tuple(f for f in found if names.get(f) not in acted)
    known |= dict.fromkeys(names.values(), now_ms)
    newest = sorted(known.items(), key=lambda item: item[1])[-MOST_REMEMBERED:]
    return ChosenDirectives(new, unchanged, dict(newest))


def is_retry(message: NewestMessage, sent: tuple[SentMessage, ...], now_ms: int) -> bool:
    """Whether a message without history is a retry of an earlier one, and not a new request.

    A client that sends no history can only repeat a request by sending the same message again. So
    it is a retry if the client says so, or if it equals the last message and that was sent just now
    or its exchange did not end normally.
    """
    before = next((item for item in sent if item.fingerprint == message.fingerprint), None)
    if before is None:
        return False
    attempt = message.attempt
    if attempt.retries or (attempt.request_id and attempt.request_id == before.request_id):
        return True
    if attempt.idempotency_key and _digest(attempt.idempotency_key) == before.idempotency_hash:
        return True
    is_recent = abs(now_ms - before.sent_at_ms) < RETRY_MS
    return before is sent[-1] and (is_recent or not before.ended)


def remember_sent(
    sent: tuple[SentMessage, ...], message: NewestMessage, now_ms: int
) -> tuple[SentMessage, ...]:
    """Remember a message that came without history; its exchange has not ended yet."""
    name, attempt = message.fingerprint, message.attempt
    others = [
        item
        for item in sent
        if item.fingerprint != name and now_ms - item.sent_at_ms < REMEMBERED_MS
    ]
    key = attempt.idempotency_key
    this = SentMessage(name, now_ms, attempt.request_id, _digest(key) if key else "")
    return (*others[1 - MOST_SENT :], this)


def end_sent(sent: tuple[SentMessage, ...], message: NewestMessage) -> tuple[SentMessage, ...]:
    """Note that the exchange of a message ended normally, unless it was sent again meanwhile."""
    mine = (message.fingerprint, message.attempt.request_id)
    return tuple(
        replace(item, ended=True) if (item.fingerprint, item.request_id) == mine else item
        for item in sent
    )


def _digest(*texts: str) -> str:
    digest = sha256()
    for text in texts:
        # With the lengths, two texts never have the digest of one joined text.
        digest.update(b"%d:" % len(text) + text.encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
