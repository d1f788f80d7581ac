"""The end of an exchange: the withheld tail, an error, or nobody left to tell."""

from __future__ import annotations

import anyio

from gateway.dialects.protocol import Renamed
from gateway.exchange.effects import Close, LetGo, ShowError
from gateway.exchange.events import Outcome, Saved
from gateway.exchange.ports import error_headers
from gateway.exchange.state import CLEAN_UP, Course

SAVED = Saved()


async def close(course: Course, effect: Close) -> Outcome:
    """Save, then show the withheld tail."""
    time = course.time
    if time is not None and time.cargo is not None:
        # Only a follow-up that came to nothing still carries something here.
        time.lost()
    session = course.request.session
    if effect.disarm and session is not None:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.disarm(effect.disarm)
    if session is not None and session.awaits_end and not course.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await session.end()
    tail = course.splice.tail(effect.plainly)
    if course.request.witness is not None and course.tap is not None:
        course.told((course.tap.answered(),))
    if course.request.answers is not None and course.exchange.number > 1:
        await _remember(course)
    if course.request.asked.stream or course.client.started:
        await course.client.end(tail)
    else:
        await course.client.whole(200, course.headers, tail)
    if time is not None and time.owed and not course.gone:
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await time.handed_over()
    return SAVED


async def _remember(course: Course) -> None:
    """Keep which upstream answer stands behind the one the client may go on from."""
    splice, answers = course.splice, course.request.answers
    if answers is None or course.passage is not None or not isinstance(splice, Renamed):
        return
    if splice.answer_id and splice.upstream_id not in ("", splice.answer_id):
        with anyio.move_on_after(CLEAN_UP, shield=True):
            await answers.remember(course.request.owner, splice.answer_id, splice.upstream_id)


async def show_error(course: Course, effect: ShowError) -> None:
    """Say what went wrong: a status before the first byte, an error frame after it."""
    error, dialect = effect.error, course.request.dialect
    course.error = error
    if course.time is not None:
        course.time.let_go()
    if course.client.started:
        streams = course.request.asked.stream
        if streams:
            await course.client.end(dialect.error_frame(error, course.splice))
        else:
            await course.client.end(dialect.error_body(error))
        return
    course.status = error.status
    route = (b"x-holdgate-upstream", course.exchange.route.upstream.encode())
    headers = (*error_headers(error), route)
    await course.client.whole(error.status, headers, dialect.error_body(error))


async def let_go(course: Course, effect: LetGo) -> None:
    """Nobody is listening: release what was claimed."""
    if course.time is not None:
        course.time.let_go()
    await course.let_go()
