"""Who asks: which session a request belongs to, and what kind of request it is there.

Headers or a few body members name the session, never the text.

The order: a session header, then metadata, then what Claude Code puts into `metadata.user_id`, then
a conversation id. A sub-agent's request names the main session, and the sub-agent in other headers.
It belongs to a session of its own, whose id begins with the main session's id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Any

import msgspec

from gateway.errors import BadRequest

Members = Mapping[str, bytes]

LONGEST = 256
CONVERSATION = "conversation:"
SUB_AGENT = "/agent:"
# Half of a SHA-256: two texts practically never have the same digits.
DIGITS = 32
# Longer than any header name that is looked for, dashes included.
LONGEST_NAME = 64
# Names that are longer together are not worth remembering: they are made up.
REMEMBERED = 1024
_take_name = itemgetter(0)

# Names without dashes, underscores and case: proxies and clients spell them differently.
SESSION_HEADERS = ("xsessionid", "sessionid", "anthropicsessionid", "xclaudecodesessionid")
CONVERSATION_HEADERS = (
    "xconversationid",
    "conversationid",
    "anthropicconversationid",
    "openaiconversationid",
)
CLAUDE_CODE_AGENT, CODEX_AGENT = "xclaudecodeagentid", "xopenaisubagent"
THREAD, THREADS_SESSION = "threadid", "sessionid"
_interesting = frozenset(
    (*SESSION_HEADERS, *CONVERSATION_HEADERS, CLAUDE_CODE_AGENT, CODEX_AGENT, THREAD)
)
_old_claude_code = re.compile(
    r"session_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$", re.IGNORECASE
)


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The session that a request belongs to, and for a sub-agent's request the main session."""

    session: str | None = None
    main: str = ""


NOBODY = Identity()


class Requester(msgspec.Struct, frozen=True, gc=False):
    """What kind of request asks: whether it offers tools, and a digest of its system text."""

    tools: bool = False
    system: str = ""

    @property
    def setter(self) -> str:
        """What is stored with the things this request sets: the digest, if it offers tools."""
        return self.system if self.tools else ""

    def outranks(self, other: Requester) -> bool:
        """Whether the other request is a side call of this one's session.

        A side call offers no tools and has another system text. An unknown requester, such as an
        agent of the gateway, is never taken for one.
        """
        return self.tools and not other.tools and other.system not in ("", self.system)


UNKNOWN = Requester()


def identify(headers: Sequence[tuple[bytes, bytes]], members: Members) -> Identity:
    """Return the session that the request names; raise `BadRequest` if the id is not valid."""
    names, named = tuple(map(_take_name, headers)), dict[str, str]()
    is_short = sum(map(len, names)) <= REMEMBERED
    for place, plain in _find_naming(names) if is_short else _look_for_naming(names):
        if text := headers[place][1].decode("utf-8", "replace").strip():
            named.setdefault(plain, text)
    if not named and not members:
        return NOBODY
    found = (
        _first(named, SESSION_HEADERS) or _from_metadata(members) or _conversation(named, members)
    )
    if not found:
        return NOBODY
    check_session_id(found)
    agent = _sub_agent(named)
    if not agent:
        return Identity(found)
    if "\0" in agent:
        raise BadRequest("The sub-agent's id contains the character U+0000; remove it.")
    return Identity(sub_agent_session(found, agent), found)


def check_session_id(text: str) -> None:
    """Raise `BadRequest` if a text cannot be the id of a session."""
    if reason := refuse_session_id(text):
        raise BadRequest(f"The session id {reason}.")


def refuse_session_id(text: str) -> str:
    """Return why a text cannot be the id of a session; empty if it can."""
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return "contains half a surrogate pair, which is not a character; remove it"
    if size > LONGEST:
        return f"is longer than {LONGEST} bytes"
    return "contains the character U+0000; remove it" if "\0" in text else ""


def sub_agent_session(main: str, agent: str) -> str:
    """Return the session id of a sub-agent; an id that would be too long is hashed."""
    whole = sub_agent_prefix(main) + agent
    if len(whole.encode()) <= LONGEST:
        return whole
    return sub_agent_prefix(main) + _hash(agent)


def sub_agent_prefix(main: str) -> str:
    """Return the common prefix of the session ids of a session's sub-agents."""
    fits = len(main.encode()) + len(SUB_AGENT) + DIGITS <= LONGEST
    return (main if fits else _hash(main)) + SUB_AGENT


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGITS]


def _sub_agent(named: dict[str, str]) -> str:
    """Return the id of the sub-agent that sends the request; empty for the main conversation."""
    if agent := named.get(CLAUDE_CODE_AGENT):
        return agent
    thread, codex = named.get(THREAD, ""), named.get(CODEX_AGENT, "")
    is_other = thread and thread != named.get(THREADS_SESSION, thread)
    return (thread or codex) if codex or is_other else ""


def _look_for_naming(names: tuple[bytes, ...]) -> tuple[tuple[int, str], ...]:
    """Return which headers may name a session, and their plain names."""
    return tuple([(place, plain) for place, name in enumerate(names) if (plain := _plain(name))])


# One client sends the same names each time, so it is looked at all of them together, and once.
_find_naming = lru_cache(maxsize=256)(_look_for_naming)


def _plain(name: bytes) -> str:
    """Return a header name without dashes and case if it may name a session; else empty."""
    if len(name) > LONGEST_NAME:
        return ""
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
        return _text(_decode_object(user.encode()).get("session_id"))
    match = _old_claude_code.search(user)
    return match[1] if match else ""


def _conversation(named: dict[str, str], members: Members) -> str:
    name = _first(named, CONVERSATION_HEADERS) or _conversation_member(members)
    return CONVERSATION + name if name else ""


def _conversation_member(members: Members) -> str:
    value = _value(members.get("conversation", b"null"))
    return _text(value.get("id")) if isinstance(value, dict) else _text(value)


def _object(members: Members, name: str) -> dict[str, Any]:
    return _decode_object(members[name]) if name in members else {}


def _decode_object(data: bytes) -> dict[str, Any]:
    value = _value(data)
    return value if isinstance(value, dict) else {}


def _value(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _with_halves(data)


def _with_halves(data: bytes) -> Any:
    """Decode JSON with half a surrogate pair, so that such an id is refused, not overlooked."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
