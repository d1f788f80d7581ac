"""The ways to upstreams: none is needed to one that speaks the client's dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from gateway.dialects.translate.responses_answer_writer import LONGEST_REPEATED, repeated
from gateway.errors import Headers, UpstreamError
from gateway.exchange.additions import NO_PARTS, GatewayParts
from gateway.exchange.model import Asked

# Of what a client says beside the body, all that means something in any dialect.
SHARED = (b"accept",)
# How what the gateway wrote is written otherwise, where upstreams of a dialect differ.
FITTERS: Mapping[str, Callable[[bytes, Profile, GatewayParts], bytes]] = {"openai-chat": fit_chat}
# It was judged when the request came in.
ANY_DEPTH = 1_000_000


class Speech(msgspec.Struct, frozen=True, gc=False):
    """How an upstream is spoken to."""

    dialect: str
    profile: Profile = NONE
    always: Headers = ()
    """What it is told unless the client says otherwise."""


class SaidAgain(msgspec.Struct, frozen=True, gc=False):
    """A request said in the dialect of its upstream, and what its answer is read with."""

    body: bytes
    lost: tuple[str, ...]
    stream: bool
    told: AnswerContext


class Saying(msgspec.Struct, frozen=True):
    """How a large request is said in the dialect of its upstream: as one piece of work."""

    speech: Speech
    dialect: Dialect
    turn: str
    at: int
    parts: GatewayParts


def say_again(saying: Saying, body: bytes) -> SaidAgain:
    """Say it; of the request itself the answer's writer is left only what it repeats."""
    speech, client = saying.speech, saying.dialect.name
    asked = saying.dialect.read(body, ANY_DEPTH)
    told = _read_context_of_large(asked, client, saying.turn, saying.at)
    said = translate_request(body, client, speech.dialect, speech.profile, saying.parts)
    return SaidAgain(said.body, said.lost, asked.stream, told)


def read_context_of(dialect: Dialect, body: bytes, turn: str, at: int) -> AnswerContext:
    """Read what an answer takes from its request, as one piece of work."""
    asked = dialect.read(body, ANY_DEPTH)
    read = read_context if len(body) <= LONGEST_REPEATED else _read_context_of_large
    return read(asked, dialect.name, turn, at)


def _read_context_of_large(asked: Asked, dialect: str, turn: str, at: int) -> AnswerContext:
    told = read_context(asked, dialect, turn, at)
    return msgspec.structs.replace(told, request=repeated(asked.body))


class Ways:
    """How each upstream is spoken to; an upstream that nothing is known of, as its client does."""

    def __init__(
        self,
        speeches: Mapping[str, Speech],
        event_bytes: int,
        answer_bytes: int,
        wall: Callable[[], float],
    ) -> None:
        self._speeches = speeches
        self._event_bytes = event_bytes
        self._answer_bytes = answer_bytes
        self._wall = wall
        self._particular = {
            name: speech
            for name, speech in speeches.items()
            if speech.dialect in FITTERS and speech.profile.is_particular
        }

    def to(self, upstream: str, dialect: Dialect, body: bytes, turn: str) -> Way | None:
        """Return the way to an upstream for one turn; None when it speaks the same dialect."""
        speech = self._speeches.get(upstream)
        if speech is None or speech.dialect == dialect.name:
            return None
        asked = dialect.read(body, ANY_DEPTH)
        told = read_context(asked, dialect.name, turn, int(self._wall()))
        return Way(
            dialect.name, speech, self._answer(speech.dialect, dialect.name, asked.stream, told)
        )

    def saying(
        self, upstream: str, dialect: Dialect, turn: str, parts: Callable[[], GatewayParts]
    ) -> Saying | None:
        """Return how a large request is translated; None when its upstream speaks the same."""
        speech = self._speeches.get(upstream)
        if speech is None or speech.dialect == dialect.name:
            return None
        return Saying(speech, dialect, turn, int(self._wall()), parts())

    def back(self, upstream: str, dialect: Dialect, said: SaidAgain) -> Way:
        """Return the way back for the answer to a request that was translated already."""
        speech = self._speeches[upstream]
        answer = self._answer(speech.dialect, dialect.name, said.stream, said.told)
        return Way(dialect.name, speech, answer, said.lost)

    def wanting(self, dialect: Dialect, body: bytes, turn: str) -> Callable[[], AnswerContext]:
        """Return how to read what the way back needs to know, as one piece of work."""
        return partial(read_context_of, dialect, body, turn, int(self._wall()))

    def convert(self, upstream: str, dialect: Dialect, told: AnswerContext, stream: bool) -> Way:
        """Return the way back for an answer that came as a stream where none was asked for.

        Or the other way round: `stream` tells what was asked for, whatever the dialects are.
        """
        speech = self._speeches.get(upstream) or Speech(dialect.name)
        told = msgspec.structs.replace(told, keeps_id=speech.dialect == dialect.name)
        kind = BodyToStreamTranslator if stream else StreamToBodyTranslator
        return Way(
            dialect.name, speech, kind(speech.dialect, dialect.name, told, self._answer_bytes)
        )

    def _answer(
        self, spoken: str, dialect: str, stream: bool, told: AnswerContext
    ) -> StreamTranslator | BodyTranslator:
        if stream:
            return StreamTranslator(spoken, dialect, told, self._event_bytes)
        return BodyTranslator(spoken, dialect, told, self._answer_bytes)

    def fit(self, upstream: str, body: bytes, parts: Callable[[], GatewayParts]) -> bytes:
        """Write what the gateway itself wrote as an upstream of the client's dialect wants it."""
        fitting = self.fitting(upstream, parts)
        return body if fitting is None else fitting(body)

    def fitting(
        self, upstream: str, parts: Callable[[], GatewayParts]
    ) -> Callable[[bytes], bytes] | None:
        """Return how that is written, as one piece of work; None where nothing is to be changed."""
        speech = self._particular.get(upstream)
        if speech is None:
            return None
        return partial(_fit, speech, parts())

    def spoken(self, upstream: str) -> str:
        """Return the dialect an upstream speaks, if that is known."""
        speech = self._speeches.get(upstream)
        return "" if speech is None else speech.dialect

    def headers(self, upstream: str, dialect: str, headers: Headers) -> Headers:
        """Return what an upstream is told beside the body, of what the client said."""
        speech = self._speeches.get(upstream)
        if speech is None:
            return headers
        if speech.dialect != dialect:
            headers = tuple(pair for pair in headers if pair[0] in SHARED)
        if not (speech.always and headers):
            return headers or speech.always
        said = {name for name, _ in headers}
        return (*headers, *(pair for pair in speech.always if pair[0] not in said))


def _fit(speech: Speech, parts: GatewayParts, body: bytes) -> bytes:
    return FITTERS[speech.dialect](body, speech.profile, parts)


class Way:
    """The way to an upstream of another dialect and back, for one turn."""

    __slots__ = ("_answer", "_client", "_speech", "close", "feed", "lost")

    def __init__(
        self,
        client: str,
        speech: Speech,
        answer: StreamTranslator | BodyTranslator,
        lost: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self._speech = speech
        self._answer = answer
        self.feed = answer.feed
        self.close = answer.close
        self.lost = lost

    @property
    def failure(self) -> UpstreamError | None:
        """What the upstream said went wrong after the answer had begun."""
        return self._answer.failure

    def request(self, body: bytes, parts: GatewayParts = NO_PARTS) -> bytes:
        """Say the same in the upstream's dialect, or raise `BadRequest`."""
        speech = self._speech
        translated = translate_request(body, self._client, speech.dialect, speech.profile, parts)
        self.lost = translated.lost
        return translated.body

    def error(self, body: bytes, status: int = 0) -> bytes:
        """Say an upstream's error answer in the client's dialect."""
        return error_body(body, self._speech.dialect, self._client, status)
