"""Orders kept in memory, against plain sorting."""

from __future__ import annotations

from random import Random

import pytest

from gateway.stores import document_cache
from gateway.stores.document_cache import Ranking


@pytest.mark.parametrize("largest", [1, 2, 7, 1000])
def test_a_ranking_is_a_sorted_list(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(document_cache, "LARGEST_CHUNK", largest)
    random = Random(largest)
    ranking: Ranking[str] = Ranking()
    model: dict[str, int] = {}
    for _ in range(1500):
        session = f"s{random.randrange(150)}"
        rank = random.choice([None, random.randrange(20)])
        ranking.place(session, rank)
        model.pop(session, None)
        if rank is not None:
            model[session] = rank
        places = sorted((rank, session) for session, rank in model.items())
        below, limit = random.randrange(22), random.randrange(1, 60)
        assert (
            ranking.lowest(below, limit) == [name for rank, name in places if rank < below][:limit]
        )
        assert ranking.highest(None, limit) == places[::-1][:limit]
        somewhere = (random.randrange(22), f"s{random.randrange(150)}")
        lower = [place for place in places if place < somewhere]
        assert ranking.highest(somewhere, limit) == lower[::-1][:limit]
        assert (session in ranking) == (session in model)
