"""Which session a request belongs to: said by headers or a few members of the body, never by text.

The order: a session header first, then metadata, then what Claude Code puts into
`metadata.user_id`, then a conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from gateway.errors import BadRequest

Members = Mapping[str, bytes]

LONGEST = 256
CONVERSATION = "conversation:"
# Longer than any that is looked for, dashes included: those need not be remembered.
LONGEST_NAME = 64

# Names without dashes, underscores and case: proxies and clients spell them differently.
SESSION_HEADERS = ("xsessionid", "sessionid", "anthropicsessionid", "xclaudecodesessionid")
CONVERSATION_HEADERS = (
    "xconversationid",
    "conversationid",
    "anthropicconversationid",
    "openaiconversationid",
)
_interesting = frozenset(SESSION_HEADERS + CONVERSATION_HEADERS)
_old_claude_code = re.compile(
    r"session_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$", re.IGNORECASE
)


def session_of(headers: Iterable[tuple[bytes, bytes]], members: Members) -> str | None:
    """Return the session's id, or None when the request names none."""
    named: dict[str, str] = {}
    for name, value in headers:
        plain = _plain(name) if len(name) <= LONGEST_NAME else ""
        if plain and (text := value.decode("utf-8", "replace").strip()):
            named.setdefault(plain, text)
    if not named and not members:
        return None
    found = (
        _first(named, SESSION_HEADERS) or _from_metadata(members) or _conversation(named, members)
    )
    # A character takes four bytes at most.
    if len(found) > LONGEST // 4 and len(found.encode("utf-8", "replace")) > LONGEST:
        raise BadRequest(f"The session id is longer than {LONGEST} bytes.")
    return found or None


@lru_cache(maxsize=256)
def _plain(name: bytes) -> str:
    """Return a header's name without its spelling, if it may name a session; else nothing."""
    plain = name.lower().replace(b"-", b"").replace(b"_", b"").decode("latin-1")
    return plain if plain in _interesting else ""


def _first(named: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if name in named:
            return named[name]
    return ""


def _from_metadata(members: Members) -> str:
    metadata = _object(members, "metadata")
    return (
        _text(metadata.get("session_id"))
        or _text(metadata.get("sessionId"))
        or _text(_object(members, "client_metadata").get("session_id"))
        or _from_user_id(_text(metadata.get("user_id")))
    )


def _from_user_id(user: str) -> str:
    if user.startswith("{"):
        return _text(_decoded(user.encode()).get("session_id"))
    match = _old_claude_code.search(user)
    return match[1] if match else ""


def _conversation(named: dict[str, str], members: Members) -> str:
    told = _first(named, CONVERSATION_HEADERS) or _conversation_member(members)
    return CONVERSATION + told if told else ""


def _conversation_member(members: Members) -> str:
    value = _value(members.get("conversation", b"null"))
    return _text(value.get("id")) if isinstance(value, dict) else _text(value)


def _object(members: Members, name: str) -> dict[str, Any]:
    return _decoded(members[name]) if name in members else {}


def _decoded(data: bytes) -> dict[str, Any]:
    value = _value(data)
    return value if isinstance(value, dict) else {}


def _value(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
