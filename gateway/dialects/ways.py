"""The ways to upstreams: none is needed to one that speaks the client's dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from gateway.core.additions import NO_PARTS, GatewayParts
from gateway.core.model import Asked
from gateway.dialects.base import Dialect
from gateway.dialects.openai_chat.fitting import fit_chat
from gateway.dialects.profiles import NONE, Profile
from gateway.dialects.translate.answers import StreamPassage, WholePassage, error_body
from gateway.dialects.translate.requests import translate_request
from gateway.dialects.translate.wanted import Wanted, wanted
from gateway.errors import Headers, UpstreamError

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
        told = wanted(asked, dialect.name, turn, int(self._wall()))
        return Way(dialect.name, speech, self._answer(speech.dialect, dialect.name, asked, told))

    def _answer(
        self, spoken: str, dialect: str, asked: Asked, told: Wanted
    ) -> StreamPassage | WholePassage:
        if asked.stream:
            return StreamPassage(spoken, dialect, told, self._event_bytes)
        return WholePassage(spoken, dialect, told, self._answer_bytes)

    def fit(self, upstream: str, body: bytes, parts: Callable[[], GatewayParts]) -> bytes:
        """Write what the gateway itself wrote as an upstream of the client's dialect wants it."""
        speech = self._particular.get(upstream)
        if speech is None:
            return body
        return FITTERS[speech.dialect](body, speech.profile, parts())

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


class Way:
    """The way to an upstream of another dialect and back, for one turn."""

    __slots__ = ("_answer", "_client", "_speech", "close", "feed", "lost")

    def __init__(self, client: str, speech: Speech, answer: StreamPassage | WholePassage) -> None:
        self._client = client
        self._speech = speech
        self._answer = answer
        self.feed = answer.feed
        self.close = answer.close
        self.lost: tuple[str, ...] = ()

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
