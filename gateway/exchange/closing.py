"""The end of an exchange: the withheld tail, an error, or nobody left to tell."""

from __future__ import annotations

import anyio

from gateway.dialects.protocol import Renamed
from gateway.exchange.effects import Close, LetGo, ShowError
from gateway.exchange.events import Outcome, Saved
from gateway.exchange.observer import Committed, ExchangeFailed, Released, RequestExtended
from gateway.exchange.ports import error_headers
from gateway.exchange.state import CLEAN_UP, ExchangeState

SAVED = Saved()


async def close(state: ExchangeState, effect: Close) -> Outcome:
    """Save, then show the withheld tail."""
    tools = state.tools
    # Only a follow-up that came to nothing still carries something here.
    await state.release_claim()
    session = state.request.session
    if effect.disarm and session is not None:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.disarm(effect.disarm)
    if session is not None and session.awaits_end and not state.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.end()
    tail = state.splice.tail(effect.neutral_finish)
    if RequestExtended in state.wants and state.tap is not None:
        await state.extend((state.tap.rebuild_turn(),))
    if state.request.answers is not None and state.exchange.number > 1:
        await _remember(state)
    if state.request.asked.stream or state.client.started:
        await state.client.end(tail)
    else:
        await state.client.whole(200, state.headers, tail)
    if tools is not None and tools.claims.owed and not state.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await tools.claims.commit_all()
            if Committed in state.wants:
                await state.tell(Committed())
    return SAVED


async def _remember(state: ExchangeState) -> None:
    """Keep which upstream answer stands behind the one the client may go on from."""
    splice, answers = state.splice, state.request.answers
    if answers is None or state.translator is not None or not isinstance(splice, Renamed):
        return
    if splice.answer_id and splice.upstream_id not in ("", splice.answer_id):
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await answers.remember(state.request.owner, splice.answer_id, splice.upstream_id)


async def show_error(state: ExchangeState, effect: ShowError) -> None:
    """Say what went wrong: a status before the first byte, an error frame after it."""
    error, dialect = effect.error, state.request.dialect
    state.error = error
    if ExchangeFailed in state.wants:
        await state.tell(ExchangeFailed(error))
    await _release_all(state)
    if state.client.started:
        streams = state.request.asked.stream
        if streams:
            await state.client.end(dialect.error_frame(error, state.splice))
        else:
            await state.client.end(dialect.error_body(error))
        return
    state.status = error.status
    route = (b"x-holdgate-upstream", state.exchange.route.upstream.encode())
    headers = (*error_headers(error), route)
    await state.client.whole(error.status, headers, dialect.error_body(error))


async def let_go(state: ExchangeState, effect: LetGo) -> None:
    """Nobody is listening: release what was claimed."""
    await _release_all(state)
    await state.let_go()


async def _release_all(state: ExchangeState) -> None:
    tools = state.tools
    if tools is not None and not tools.claims.is_empty:
        tools.claims.release_all()
        if Released in state.wants:
            await state.tell(Released())
