"""What goes into a session and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import Asked
from gateway.sessions.directives.memory import NO_ATTEMPT, Attempt
from gateway.sessions.model import SessionState, StopRules, decode_state, encode_state, find_expiry
from gateway.stores.documents import DocumentKey, Shape

KIND = "session"
NEW = SessionState()
SHAPE = Shape(KIND, 1, NEW, encode_state, decode_state, find_expiry)
# Where no session is named, what has to be found again is kept under the id of a call.
CALL = "call:"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What the operator says about sessions."""

    rules: StopRules = field(default_factory=StopRules)
    files_dir: Path | None = None
    bd_mode: str = "auto"
    compaction_sentinels: tuple[str, ...] = ()
    side_call_sentinels: tuple[str, ...] = ()
    keep_unknown: bool = False
    """Whether marks that are no directive stay in the text."""


class Kind(StrEnum):
    """What a request is to its session."""

    PLAIN = "plain"
    AUXILIARY = "auxiliary"
    """A coding agent's side call: it is relayed, and nothing else."""
    COMPACTION = "compaction"
    """The conversation is being summed up: nothing is to be added to that."""
    STRUCTURED = "structured"
    """The answer has to have a form: the model is told the time, and nothing else happens."""


class SessionRequest(msgspec.Struct, frozen=True, gc=False):
    """One request on its way into its session."""

    owner: str
    name: str | None
    asked: Asked
    dialect: Dialect
    exchange_id: str = ""
    """What all turns of the exchange have in common."""
    key: DocumentKey | None = None
    """Where the session's state is kept, if the request names a session."""
    attempt: Attempt = NO_ATTEMPT
    main: str = ""
    """The main session, if this is a request of one of its sub-agents."""
