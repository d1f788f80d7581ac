"""Translation between a client's dialect and that of an upstream; none if both speak the same.

There are two classes. `Translators` is made once, at start: it knows the dialect of every upstream.
`Translator` is made by it for one turn to an upstream of another dialect: it translates the turn's
request, and then the answer, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial

import msgspec

from gateway.dialects.openai_chat.fitting import fit_chat
from gateway.dialects.profiles import NONE, Profile
from gateway.dialects.protocol import Dialect
from gateway.dialects.translate.answer_context import AnswerContext, read_context
from gateway.dialects.translate.answers import (
    BodyToStreamTranslator,
    BodyTranslator,
    StreamToBodyTranslator,
    StreamTranslator,
    error_body,
)
from gateway.dialects.translate.requests import translate_request
from gateway.dialects.translate.responses_answer_writer import LONGEST_REPEATED, keep_echo
from gateway.errors import Headers, UpstreamError
from gateway.exchange.additions import NO_PARTS, GatewayParts
from gateway.exchange.model import ModelRequest

# Of what a client says beside the body, all that means something in any dialect.
SHARED = (b"accept",)
# How what the gateway wrote is written otherwise, where upstreams of a dialect differ.
FITTERS: Mapping[str, Callable[[bytes, Profile, GatewayParts], bytes]] = {"openai-chat": fit_chat}
# It was judged when the request came in.
ANY_DEPTH = 1_000_000


class UpstreamDialect(msgspec.Struct, frozen=True, gc=False):
    """What dialect an upstream speaks, and what is particular about it."""

    dialect: str
    profile: Profile = NONE
    always: Headers = ()
    """What it is told unless the client says otherwise."""


class OffloadedTranslation(msgspec.Struct, frozen=True, gc=False):
    """A large request, translated in a helper process, and what its answer is read with."""

    body: bytes
    lost: tuple[str, ...]
    stream: bool
    told: AnswerContext


class TranslationTask(msgspec.Struct, frozen=True):
    """The translation of a large request as one piece of work, which a helper process can do."""

    spoken: UpstreamDialect
    dialect: Dialect
    turn: str
    at: int
    parts: GatewayParts


def translate_large(task: TranslationTask, body: bytes) -> OffloadedTranslation:
    """Translate a large request; of it the answer's writer is left only what it repeats."""
    spoken, client = task.spoken, task.dialect.name
    asked = task.dialect.read(body, ANY_DEPTH)
    told = _read_context_of_large(asked, client, task.turn, task.at)
    said = translate_request(body, client, spoken.dialect, spoken.profile, task.parts)
    return OffloadedTranslation(said.body, said.lost, asked.stream, told)


def read_context_of(dialect: Dialect, body: bytes, turn: str, at: int) -> AnswerContext:
    """Read what an answer takes from its request, as one piece of work."""
    asked = dialect.read(body, ANY_DEPTH)
    read = read_context if len(body) <= LONGEST_REPEATED else _read_context_of_large
    return read(asked, dialect.name, turn, at)


def _read_context_of_large(asked: ModelRequest, dialect: str, turn: str, at: int) -> AnswerContext:
    told = read_context(asked, dialect, turn, at)
    return msgspec.structs.replace(told, request=keep_echo(asked.body))


class Translators:
    """The dialects of all upstreams; one that nothing is known of speaks that of its client."""

    def __init__(
        self,
        dialects: Mapping[str, UpstreamDialect],
        event_bytes: int,
        answer_bytes: int,
        wall: Callable[[], float],
    ) -> None:
        self._upstream_dialects = dict(dialects)
        self._event_bytes = event_bytes
        self._answer_bytes = answer_bytes
        self._wall = wall
        self.signed = frozenset(
            name
            for name, spoken in dialects.items()
            if spoken.dialect in FITTERS and spoken.profile.call_signature
        )
        """The upstreams that want the signatures of calls back."""
        self._particular = {
            name: spoken
            for name, spoken in dialects.items()
            if spoken.dialect in FITTERS and spoken.profile.is_particular
        }

    def make_translator(
        self, upstream: str, dialect: Dialect, body: bytes, turn: str
    ) -> Translator | None:
        """Return the translator of one turn; None when its upstream speaks the same dialect."""
        spoken = self._upstream_dialects.get(upstream)
        if spoken is None or spoken.dialect == dialect.name:
            return None
        asked = dialect.read(body, ANY_DEPTH)
        told = read_context(asked, dialect.name, turn, int(self._wall()))
        answer = self._answer(spoken.dialect, dialect.name, asked.stream, told)
        return Translator(dialect.name, spoken, answer)

    def plan_translation(
        self, upstream: str, dialect: Dialect, turn: str, parts: Callable[[], GatewayParts]
    ) -> TranslationTask | None:
        """Return how a large request is translated; None when its upstream speaks the same."""
        spoken = self._upstream_dialects.get(upstream)
        if spoken is None or spoken.dialect == dialect.name:
            return None
        return TranslationTask(spoken, dialect, turn, int(self._wall()), parts())

    def make_answer_translator(
        self, upstream: str, dialect: Dialect, said: OffloadedTranslation
    ) -> Translator:
        """Return the translator of the answer to a request that was translated already."""
        spoken = self._upstream_dialects[upstream]
        answer = self._answer(spoken.dialect, dialect.name, said.stream, said.told)
        return Translator(dialect.name, spoken, answer, said.lost)

    def make_context_reader(
        self, dialect: Dialect, body: bytes, turn: str
    ) -> Callable[[], AnswerContext]:
        """Return how to read what an answer takes from its request, as one piece of work."""
        return partial(read_context_of, dialect, body, turn, int(self._wall()))

    def make_converter(
        self, upstream: str, dialect: Dialect, told: AnswerContext, stream: bool
    ) -> Translator:
        """Return the translator of an answer that came as a stream where none was asked for.

        Or the other way round: `stream` tells what was asked for, whatever the dialects are.
        """
        spoken = self._upstream_dialects.get(upstream) or UpstreamDialect(dialect.name)
        told = msgspec.structs.replace(told, keeps_id=spoken.dialect == dialect.name)
        kind = BodyToStreamTranslator if stream else StreamToBodyTranslator
        answer = kind(spoken.dialect, dialect.name, told, self._answer_bytes)
        return Translator(dialect.name, spoken, answer)

    def _answer(
        self, spoken: str, dialect: str, stream: bool, told: AnswerContext
    ) -> StreamTranslator | BodyTranslator:
        if stream:
            return StreamTranslator(spoken, dialect, told, self._event_bytes)
        return BodyTranslator(spoken, dialect, told, self._answer_bytes)

    def fit_body(self, upstream: str, body: bytes, parts: Callable[[], GatewayParts]) -> bytes:
        """Write what the gateway itself wrote as an upstream of the client's dialect wants it."""
        fitter = self.make_fitter(upstream, parts)
        return body if fitter is None else fitter(body)

    def make_fitter(
        self, upstream: str, parts: Callable[[], GatewayParts]
    ) -> Callable[[bytes], bytes] | None:
        """Return how that is written, as one piece of work; None where nothing is to be changed."""
        spoken = self._particular.get(upstream)
        if spoken is None:
            return None
        return partial(_fit, spoken, parts())

    def asks_usage(self, upstream: str) -> bool:
        """Whether an upstream is asked to tell the usage of its streams."""
        spoken = self._upstream_dialects.get(upstream)
        return spoken is not None and not spoken.profile.always_reports

    def stop_asking_usage(self, upstream: str) -> bool:
        """Never ask an upstream for usage again, since it refuses that; False if that is known."""
        if not self.asks_usage(upstream):
            return False
        spoken = self._upstream_dialects[upstream]
        profile = msgspec.structs.replace(spoken.profile, always_reports=True)
        self._upstream_dialects[upstream] = msgspec.structs.replace(spoken, profile=profile)
        return True

    def without_usage(self, upstream: str) -> Translators:
        """Return translators that differ in this alone: one upstream is not asked for usage."""
        other = copy(self)
        other._upstream_dialects = dict(self._upstream_dialects)
        other.stop_asking_usage(upstream)
        return other

    def find_dialect(self, upstream: str) -> str:
        """Return the dialect an upstream speaks, if that is known."""
        spoken = self._upstream_dialects.get(upstream)
        return "" if spoken is None else spoken.dialect

    def select_headers(self, upstream: str, dialect: str, headers: Headers) -> Headers:
        """Return what an upstream is told beside the body, of what the client said."""
        spoken = self._upstream_dialects.get(upstream)
        if spoken is None:
            return headers
        if spoken.dialect != dialect:
            headers = tuple(pair for pair in headers if pair[0] in SHARED)
        if not (spoken.always and headers):
            return headers or spoken.always
        said = {name for name, _ in headers}
        return (*headers, *(pair for pair in spoken.always if pair[0] not in said))


def _fit(spoken: UpstreamDialect, parts: GatewayParts, body: bytes) -> bytes:
    return FITTERS[spoken.dialect](body, spoken.profile, parts)


class Translator:
    """Translates one turn: the request to an upstream of another dialect, and its answer."""

    __slots__ = ("_answer", "_client", "_spoken", "close", "feed", "lost")

    def __init__(
        self,
        client: str,
        spoken: UpstreamDialect,
        answer: StreamTranslator | BodyTranslator,
        lost: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self._spoken = spoken
        self._answer = answer
        self.feed = answer.feed
        self.close = answer.close
        self.lost = lost

    @property
    def signatures(self) -> Mapping[str, str]:
        """What the upstream signed calls with, by their ids."""
        return self._answer.signatures

    @property
    def failure(self) -> UpstreamError | None:
        """What the upstream said went wrong after the answer had begun."""
        return self._answer.failure

    def request(self, body: bytes, parts: GatewayParts = NO_PARTS) -> bytes:
        """Say the same in the upstream's dialect, or raise `BadRequest`."""
        spoken = self._spoken
        translated = translate_request(body, self._client, spoken.dialect, spoken.profile, parts)
        self.lost = translated.lost
        return translated.body

    def error(self, body: bytes, status: int = 0) -> bytes:
        """Say an upstream's error answer in the client's dialect."""
        return error_body(body, self._spoken.dialect, self._client, status)
