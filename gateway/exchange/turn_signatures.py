"""Signatures of calls in one exchange: read before a turn, kept after it.

Only for upstreams that want them back; for all others nothing here is called.
"""

from __future__ import annotations

from gateway.dialects.openai_chat.signatures import find_signatures
from gateway.dialects.protocol import Tap
from gateway.exchange.state import ExchangeState


async def load_signatures(state: ExchangeState) -> None:
    """Read what is remembered for the calls of the request."""
    request, kept = state.request, state.request.signatures
    # An agent's history has them all.
    if kept is None or request.is_composed:
        state.signatures = {}
        return
    state.signatures = await kept.recall(
        request.owner, request.session_id, request.dialect, request.asked
    )


async def keep_signatures(state: ExchangeState, tap: Tap) -> None:
    """Remember what a turn signed its calls with, before the client can send them back."""
    request, translator, known = state.request, state.translator, state.signatures
    if translator is not None:
        found = translator.signatures
    else:
        found = find_signatures(tap.rebuild_turn().message)
    if not found or known is None:
        return
    for call, signature in found.items():
        # What is used twice names none of the two.
        known[call] = signature if known.get(call, signature) == signature else ""
    if request.signatures is not None and not request.is_composed:
        shown = tap.client_call_ids()
        await request.signatures.remember(request.owner, request.session_id, found, shown)
