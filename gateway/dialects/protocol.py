"""What the exchange and the API ask of a dialect. All of it is pure: bytes and values.

A `Dialect` reads and changes requests and renders errors. Its `Splice` makes the n turns of one
exchange one answer. A `Tap` looks at one turn's bytes: what it returns may be shown at once, what
it keeps is the tail, and what it records on its tape can be rebuilt as the assistant's turn.

Taps and splices speak the client's dialect only. An upstream of another dialect is translated
below them, chunk by chunk: see `Translator` in translators.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from gateway.errors import HoldgateError, UpstreamError
from gateway.exchange.additions import Addition, AnsweredTurn
from gateway.exchange.model import ModelRequest, TurnEnd, Usage
from gateway.sessions.model import KeptTurn


class Tap(Protocol):
    """Looks at the bytes of one turn."""

    @property
    def seen(self) -> bool:
        """Whether the turn has begun: its first frame, or its whole body, is in."""

    @property
    def ended(self) -> bool:
        """Whether the terminal frame is in."""

    @property
    def failure(self) -> UpstreamError | None:
        """What the upstream said went wrong after the turn had begun; it ends the turn."""

    def feed(self, data: bytes) -> bytes:
        """Take what came; return what the client may see now. Raises `UpstreamError`."""

    def close(self) -> bytes:
        """Take the end of the upstream's bytes. Raises `UpstreamError` if it came too early."""

    def end(self) -> TurnEnd:
        """Say what the turn came to."""

    def usage_so_far(self) -> Usage | None:
        """Return what the upstream reported of it until now: of a turn that breaks off."""

    def rebuild_turn(self) -> AnsweredTurn:
        """Rebuild the assistant's turn from the tape, for a follow-up."""

    def client_call_ids(self) -> tuple[str, ...]:
        """Return the ids of the calls that the client sees, in their order."""

    def text(self) -> str:
        """Return the text the turn said."""


class Splice(Protocol):
    """Makes one answer out of n turns."""

    settling: bool
    """Whether what came of the turn at hand is not shown yet, and may never be."""

    hides_usage: bool
    """Whether the gateway asked for the usage of the turn at hand, and the client did not."""

    @property
    def content_type(self) -> bytes:
        """What the client is told the answer is."""

    def accepts(self, content_type: bytes) -> bool:
        """Whether an upstream's answer of this type can be read."""

    def tap(self) -> Tap:
        """Begin to look at one attempt at the next turn; of one before it nothing was shown."""

    def take(self, tap: Tap) -> None:
        """Count a turn as part of the answer: its terminal frame is in."""

    def rest(self) -> None:
        """Keep only what the rest of the answer takes: a long wait begins, as one of many."""

    def heartbeat(self) -> bytes:
        """Return a frame that keeps an idle client's timers quiet and changes nothing."""

    def tail(self, neutral_finish: bool) -> bytes:
        """Return the end of the answer."""

    def forget(self) -> None:
        """Let go of the turns: the answer is over.

        They know the answer and it knows them; nothing is to wait for the collector.
        """


class Dialect(Protocol):
    """One wire language."""

    @property
    def name(self) -> str:
        """As the configuration spells it."""

    @property
    def path(self) -> str:
        """What is appended to an upstream's base URL."""

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> ModelRequest:
        """Read a client's request, or raise `BadRequest` naming the field.

        Where the body is silent, `prefers_stream` decides, since the client accepts an event
        stream, and `default_model` is asked, if there is one.
        """

    def rewrite(self, body: bytes, model: str, stream: bool) -> bytes:
        """Name the model as the upstream knows it; a body that is right already stays as it is."""

    def add(self, body: bytes, additions: tuple[Addition, ...], history_end: int = 0) -> bytes:
        """Put additions into a request; where its history ends, if `read` told."""

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Take out reasoning that only an upstream of another dialect would take back."""

    def ask_usage(self, body: bytes) -> bytes:
        """Have a stream end with its usage, where the dialect tells that only if asked."""

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said."""

    def strip_tools(self, body: bytes) -> bytes:
        """Take out what only the client that sent a request can do with its answer: its tools."""

    def declares(self, tools: bytes, name: str) -> bool:
        """Whether the client's tools, as `ModelRequest` has them, include one of this name."""

    def restore_turns(self, body: bytes, kept: tuple[KeptTurn, ...]) -> bytes:
        """Put kept calls and results back into the turns they were taken from.

        A body without such a turn is returned as it is.
        """

    def find_call_ids(self, body: bytes) -> tuple[str, ...]:
        """Return the first call's id of each turn in the history that called tools."""

    def newest_user(self, body: bytes) -> tuple[int, tuple[str, ...]]:
        """Return the ordinal and the texts of the newest user message."""

    def has_one_message(self, body: bytes) -> bool:
        """Whether the user says one thing, and nothing of a model or a tool is in the request."""

    def system_texts(self, body: bytes) -> tuple[str, ...]:
        """Return the texts that instruct the model."""

    def edit_user_texts(self, body: bytes, edit: Callable[[str], str]) -> bytes:
        """Change what users said; a text that becomes empty is dropped, a message becomes a dot."""

    def splice(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""

    def shows_content(self, frames: bytes) -> bool:
        """Whether frames that a client is shown say anything: text, reasoning, a tool call."""

    def read_disguised_error(self, body: bytes) -> UpstreamError:
        """Read a 2xx answer that is no answer: an error in disguise, or nothing we know."""

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer."""

    def error_frame(self, error: HoldgateError, splice: Splice | None = None) -> bytes:
        """Render an error inside a stream, as the end of this answer if something was shown."""


@runtime_checkable
class Chained(Protocol):
    """A dialect whose requests may name the answer they go on from."""

    def previous_id(self, body: bytes) -> str:
        """Return the id of the answer that a request goes on from; empty if it names none."""

    def continue_from(self, body: bytes, previous_id: str) -> bytes:
        """Name the answer that a request goes on from as the upstream knows it."""


@runtime_checkable
class Renamed(Protocol):
    """An answer that the client knows by another id than the upstream does its last turn."""

    @property
    def answer_id(self) -> str:
        """The id by which the client knows the answer."""

    @property
    def upstream_id(self) -> str:
        """The id by which the upstream knows the last turn."""
