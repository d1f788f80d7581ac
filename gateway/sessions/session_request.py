"""A request as its session sees it, the settings of sessions, and the form of their documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import ModelRequest
from gateway.sessions.directives.memory import NO_ATTEMPT, Attempt
from gateway.sessions.model import SessionState, StopRules, decode_state, encode_state, find_expiry
from gateway.stores.documents import DocumentKey, Shape

KIND = "session"
NEW = SessionState()
SHAPE = Shape(KIND, 1, NEW, encode_state, decode_state, find_expiry)
# For a request without a session, kept turns are stored under this prefix and the id of a call.
CALL = "call:"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The operator's settings for sessions."""

    rules: StopRules = field(default_factory=StopRules)
    files_dir: Path | None = None
    bd_mode: str = "auto"
    compaction_sentinels: tuple[str, ...] = ()
    side_call_sentinels: tuple[str, ...] = ()
    keep_unknown: bool = False
    """Whether marks that are not a directive stay in the text."""


class Kind(StrEnum):
    """The kind of a request, as its session treats it."""

    PLAIN = "plain"
    AUXILIARY = "auxiliary"
    """A coding agent's side call: it is only relayed."""
    COMPACTION = "compaction"
    """The client asks for a summary of the conversation: nothing is added to the request."""
    STRUCTURED = "structured"
    """The client asks for structured output: only the time is added to the request."""


class SessionRequest(msgspec.Struct, frozen=True, gc=False):
    """One request, as its session gets it."""

    owner: str
    name: str | None
    asked: ModelRequest
    dialect: Dialect
    exchange_id: str = ""
    """The id that all turns of the exchange share."""
    key: DocumentKey | None = None
    """The key of the session's state, if the request names a session."""
    attempt: Attempt = NO_ATTEMPT
    main: str = ""
    """The main session, if this is a request of one of its sub-agents."""
    mark: int = 0
    """Taken before the session was looked at: tells later whether it has changed."""
