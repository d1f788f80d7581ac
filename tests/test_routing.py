"""Where model names lead, and who is asked first after a failure."""

import pytest

from gateway import routing
from gateway.errors import ModelNotFound
from gateway.exchange.model import Route
from gateway.routing import Health, Models, PublicModel, every_model

A, B, C = Route("a", "m"), Route("b", "m"), Route("c", "m")


def test_every_listed_model_is_public_by_both_names() -> None:
    models = every_model({"a": ("m", "n"), "b": ("m",)})
    assert [m.name for m in models.listed] == ["m", "a/m", "n", "a/n", "b/m"]
    assert models.find("m").routes == (A, B)
    assert models.find("b/m").routes == (B,)


def test_an_upstream_that_serves_any_name() -> None:
    models = every_model({"a": ("m",), "x": ("*",), "y": ("*", "n")})
    assert models.find("x/some/model").routes == (Route("x", "some/model"),)
    assert models.find("new").routes == (Route("x", "new"), Route("y", "new"))
    assert models.find("m").routes == (A,)
    assert models.find("n").routes == (Route("y", "n"),)


@pytest.mark.parametrize(
    "offers, name",
    [
        ({"a": ("m",)}, "m"),
        ({"a": ("m",), "b": ("n",)}, ""),
        ({"a": ("m", "*")}, ""),
        ({"a": ("*",)}, ""),
        ({}, ""),
    ],
)
def test_one_model_is_the_default_under_whichever_names(
    offers: dict[str, tuple[str, ...]], name: str
) -> None:
    assert every_model(offers).default_name == name


def test_an_unknown_name_is_told_the_nearest() -> None:
    models = Models([PublicModel("gpt-5", (A,))])
    with pytest.raises(ModelNotFound, match="Did you mean 'gpt-5'"):
        models.find("gtp-5")
    with pytest.raises(ModelNotFound, match="GET /v1/models"):
        models.find("zzz")


def test_whoever_failed_is_asked_last_for_a_growing_time() -> None:
    health = Health()
    assert health.order((A, B, C), 0) == (A, B, C)
    for pause in (5, 10, 20, 40, 80, 120, 120):
        health.note_failure("a", 1000)
        assert health.cooling("a", 1000) == pause
    assert health.order((A, B, C), 1000) == (B, C, A)
    assert health.order((A, B, C), 1121) == (A, B, C)


def test_the_soonest_ready_comes_first_and_the_only_one_stays() -> None:
    health = Health()
    health.note_failure("a", 0)
    health.note_failure("a", 0)
    health.note_failure("b", 0)
    assert health.order((A, B), 0) == (B, A)
    assert health.order((A,), 0) == (A,)


def test_retry_after_is_honoured_within_reason() -> None:
    health = Health()
    health.note_failure("a", 0, retry_after=30)
    health.note_failure("b", 0, retry_after=1)
    health.note_failure("c", 0, retry_after=10**9)
    assert [health.cooling(name, 0) for name in "abc"] == [30, 5, 3600]


def test_an_answer_forgives() -> None:
    health = Health()
    health.note_failure("a", 0)
    health.note_answer("a")
    health.note_answer("b")
    assert health.cooling("a", 0) == 0


def test_what_is_remembered_of_some_goes_on_apart_from_the_others() -> None:
    health = Health()
    health.note_failure("a", 0.0)
    health.note_failure("b", 0.0)
    kept = health.keep_only({"a", "c"})
    assert kept.cooling("a", 0.0) == health.cooling("a", 0.0) > 0
    assert kept.cooling("b", 0.0) == 0
    health.note_failure("a", 0.0)
    assert kept.cooling("a", 0.0) < health.cooling("a", 0.0)


def test_what_an_upstream_offers() -> None:
    models = Models([PublicModel("p", (A,))], offers={"a": ("m",), "x": ("*",)})
    assert models.offers(A)
    assert models.offers(Route("x", "anything"))
    assert not models.offers(Route("a", "other"))
    assert not models.offers(B)


def test_of_a_name_of_megabytes_only_the_beginning_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(routing, "get_close_matches", lambda name, *_, **__: compared.append(name))
    with pytest.raises(ModelNotFound):
        every_model({"a": ("m",)}).find("m" * 2**20)
    assert compared == ["m" * 100]
