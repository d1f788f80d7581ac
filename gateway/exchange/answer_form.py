"""What an upstream's answer is, a stream or one body: its bytes tell, whatever its headers say."""

from __future__ import annotations

from gateway.dialects.translators import Translator
from gateway.errors import Headers, UpstreamAnswered, UpstreamBroke
from gateway.exchange.state import ExchangeState
from gateway.exchange.translated_turn import TranslatedTurn
from gateway.wire.http_client.upstream import Turn
from gateway.wire.sse import BOM

STREAM, BODY, OTHER = "stream", "body", "other"
FIELDS = (b"data:", b"event:", b":", b"id:", b"retry:")
REFUSAL_BYTES = 65536


def find_header(headers: Headers, name: bytes) -> bytes:
    """Return the first header of this name, or nothing."""
    return next((value for key, value in headers if key == name), b"")


def form_of(first: bytes) -> str | None:
    """Tell what an answer is by its first bytes; None where more are needed."""
    begins = first.removeprefix(BOM).lstrip()
    if begins.startswith(b"{"):
        return BODY
    if begins.startswith(FIELDS):
        return STREAM
    if len(first) > REFUSAL_BYTES:
        return OTHER
    return None if not begins or any(field.startswith(begins) for field in FIELDS) else OTHER


async def read_form(state: ExchangeState, turn: Turn, name: str) -> tuple[Turn, bytes]:
    """Read the first bytes of an answer; return it as what was asked for, and what was read."""
    stream, first, form = state.request.asked.stream, b"", None
    while form is None and (more := await anext(turn, None)) is not None:
        first += more
        form = form_of(first)
    if form in (None, OTHER):
        if not state.splice.accepts(find_header(turn.headers, b"content-type").lower()):
            raise state.request.dialect.read_disguised_error(first)
    elif form != (STREAM if stream else BODY):
        if stream:
            first = await _read_body(state, turn, first)
        state.translator = await _convert(state, name, first)
    if state.translator is None:
        return turn, first
    return TranslatedTurn(turn, state.translator, first), b""


async def _read_body(state: ExchangeState, turn: Turn, first: bytes) -> bytes:
    limit = state.services.limits.answer_bytes
    pieces, room = [first], limit - len(first)
    async for data in turn:
        pieces.append(data)
        room -= len(data)
        if room < 0:
            raise UpstreamBroke(f"The upstream's answer is longer than {limit} bytes.")
    return b"".join(pieces)


async def _convert(state: ExchangeState, name: str, body: bytes) -> Translator:
    """Return the way back from the form that came, unless it is an error of the upstream's own."""
    request, translators, asked = state.request, state.services.translators, state.body
    error = request.dialect.read_disguised_error(body) if state.translator is None else None
    if isinstance(error, UpstreamAnswered):
        raise error
    context = await state.work(
        len(asked), translators.make_context_reader(request.dialect, asked, name)
    )
    where, stream = state.exchange.route.upstream, request.asked.stream
    state.hide_usage()
    return translators.make_converter(where, request.dialect, context, stream)
