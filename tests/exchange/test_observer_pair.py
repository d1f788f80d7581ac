"""Two observers as one: each hears what it wants, in order, and those that write are waited for."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from gateway.exchange.observer import (
    NOBODY,
    Committed,
    Happening,
    Observer,
    Released,
    Spliced,
    Wants,
    combine,
)

HAPPENINGS = (Committed(), Released(), Spliced(2))


class Listener:
    """Writes down what it hears; what it `stores` is written a moment later."""

    def __init__(self, name: str, heard: list[str], wants: Wants, stores: Wants) -> None:
        self.name = name
        self.wants = wants
        self._heard = heard
        self._stores = stores

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        kind = type(happening)
        self._heard.append(f"{self.name} hears {kind.__name__} at {at}")
        return self._store(kind.__name__) if kind in self._stores else None

    async def _store(self, what: str) -> None:
        self._heard.append(f"{self.name} stores {what}")


async def tell(observer: Observer, happening: Happening) -> None:
    """Tell as the runner does: only what is wanted."""
    if type(happening) in observer.wants:
        pending = observer.observe(1.5, happening)
        if pending is not None:
            await pending


KINDS: tuple[Wants, ...] = (
    frozenset(),
    frozenset({Committed}),
    frozenset({Committed, Released}),
)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("stores", [frozenset(), frozenset({Committed})])
async def test_a_pair_tells_what_each_alone_would_hear(
    first: Wants, second: Wants, stores: Wants
) -> None:
    heard: list[str] = []
    pair = combine(Listener("one", heard, first, stores), Listener("other", heard, second, stores))
    assert pair.wants == first | second
    for happening in HAPPENINGS:
        await tell(pair, happening)
    alone: list[str] = []
    for happening in HAPPENINGS:
        both = [Listener("one", alone, first, stores), Listener("other", alone, second, stores)]
        kind = type(happening)
        told = [one.observe(1.5, happening) for one in both if kind in one.wants]
        for pending in told:
            if pending is not None:
                await pending
    assert heard == alone


def test_nobody_adds_nothing() -> None:
    one = Listener("one", [], frozenset(), frozenset())
    assert combine(one, NOBODY) is one
    assert combine(NOBODY, one) is one
