"""What directives do: to routes, to what a session remembers, and when they act again."""

from functools import reduce

import msgspec
import pytest

from gateway.core.directives import (
    MOST_REMEMBERED,
    REMEMBERED_MS,
    Routing,
    Target,
    candidates,
    fingerprint,
    forced_route,
    in_force,
    news,
    no_route,
    read,
    routing_after,
)
from gateway.core.model import Route

UPSTREAMS = ("glm", "openai", "kimi")
GLM, GPT, KIMI = Route("glm", "glm-4.7"), Route("openai", "gpt-5"), Route("kimi", "k2")
ROUTES = (GLM, GPT, KIMI)
NOW = 1_770_000_000_000


def routed(text: str, before: Routing | None = None) -> Routing:
    said = [found.directive for found in read(text, UPSTREAMS).directives]
    return reduce(routing_after, said, before or Routing())


ROUTING = [
    ("nothing said", ROUTES),
    ("<**!openai**>", (GPT,)),
    ("<**!kimi,glm**>", (GLM, KIMI)),
    ("<**!kimi**> <**!glm**>", (GLM,)),
    ("<**!openai.gpt-5**>", (GPT, GLM, KIMI)),
    ("<**!openai.o9**>", (Route("openai", "o9"), GLM, GPT, KIMI)),
    ("<**!openai.o9**> <**!kimi.k2**>", (KIMI, GLM, GPT)),
    ("<**!glm**> <**!openai.gpt-5**>", (GLM,)),
    ("<**!openai.gpt-5**> <**#openai**>", (GLM, KIMI)),
    ("<**#glm**>", (GPT, KIMI)),
    ("<**#glm.glm-4.7,kimi**>", (GPT,)),
    ("<**#glm.other**>", ROUTES),
    ("<**#glm**> <**#kimi**>", (GLM, GPT)),
    ("<**#glm,kimi**> <**@glm**>", (GLM, GPT)),
    ("<**#glm.glm-4.7,kimi**> <**@glm**>", (GLM, GPT)),
    ("<**#glm.glm-4.7,kimi.k2**> <**@kimi.k2**>", (GPT, KIMI)),
    ("<**#glm**> <**@glm.glm-4.7**>", (GPT, KIMI)),
    ("<**@glm**>", ROUTES),
    ("<**!glm**> <**#kimi**> <**!openai.o9**> <**clear**>", ROUTES),
    ("<**clear**> <**!glm**>", (GLM,)),
    ("<**!nobody**> <**stopMessage:go**> <**kimi.k2**>", ROUTES),
    ("<**!glm**> <**#glm**>", ()),
]


@pytest.mark.parametrize("text, expected", ROUTING)
def test_routes_that_may_be_asked(text: str, expected: tuple[Route, ...]) -> None:
    assert candidates(ROUTES, routed(text)) == expected


def test_what_is_in_force_lasts_until_it_is_changed() -> None:
    before = routed("<**!glm,kimi**> <**!kimi.k2**> <**#glm.old**>")
    assert before == Routing(("glm", "kimi"), KIMI, (Target("glm", "old"),))
    assert routed("hello", before) is before
    assert routed("<**@glm**>", before) == Routing(("glm", "kimi"), KIMI)


def test_a_forced_route_stands_alone() -> None:
    said = [
        f.directive for f in read("<**glm.a**> <**!kimi**> <**openai.o9**>", UPSTREAMS).directives
    ]
    forced = forced_route(said)
    assert forced == Route("openai", "o9")
    assert candidates(ROUTES, Routing(allow=("kimi",)), forced) == (forced,)
    assert forced_route(said[1:2]) is None


def test_the_error_names_what_is_in_force() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.glm-4.7**> <**#glm,kimi.k2,kimi**>")
    assert no_route("default", routing) == (
        "No upstream is left for 'default': <**!glm,kimi**>, <**!glm.glm-4.7**>, "
        "<**#glm,kimi.k2,kimi**> in force; send <**clear**> to forget that."
    )
    assert in_force(Routing()) == ()


def test_what_is_written_as_in_force_says_the_same_again() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.a/b:c.d**> <**#openai,glm.x**>")
    assert routed(" ".join(in_force(routing))) == routing


def test_routing_survives_a_file() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.glm-4.7**> <**#openai,glm.x**>")
    assert msgspec.json.decode(msgspec.json.encode(routing), type=Routing) == routing


FOUND = read("<**#glm**> <**@glm**> <**#glm**> <**kimi.k2**> <**!zz**>", UPSTREAMS).directives
LASTING, PASSING = FOUND[:3], FOUND[3:]


def test_a_directive_acts_once() -> None:
    first = news(FOUND, 1, {}, NOW)
    assert first.new == FOUND
    assert first.unchanged == ()
    assert len(first.remembered) == 2
    again = news(FOUND, 1, first.remembered, NOW + REMEMBERED_MS - 1)
    assert again.new == PASSING
    assert again.unchanged == LASTING


def test_seen_again_it_is_remembered_longer() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    remembered = news(LASTING, 1, remembered, NOW + REMEMBERED_MS - 1).remembered
    assert news(LASTING, 1, remembered, NOW + REMEMBERED_MS + 1).unchanged == LASTING


def test_after_half_an_hour_it_is_forgotten() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    later = news((), 2, remembered, NOW + REMEMBERED_MS)
    assert later.remembered == {}
    assert news(LASTING, 1, remembered, NOW + REMEMBERED_MS).new == LASTING


def test_in_another_message_it_is_another() -> None:
    remembered = news(LASTING, 1, {}, NOW).remembered
    second = news(LASTING, 2, remembered, NOW + 1)
    assert second.new == LASTING
    assert len(second.remembered) == 4


def test_a_message_that_is_changed_acts_by_what_is_new_in_it() -> None:
    remembered = news(LASTING[:1], 1, {}, NOW).remembered
    changed = news(LASTING, 1, remembered, NOW + 1)
    assert changed.unchanged == (LASTING[0], LASTING[2])
    assert changed.new == (LASTING[1],)


def test_the_memory_has_an_end() -> None:
    full = {f"{n:016x}": NOW + n for n in range(MOST_REMEMBERED)}
    remembered = news(LASTING[:1], 1, full, NOW + 1000).remembered
    assert len(remembered) == MOST_REMEMBERED
    assert f"{0:016x}" not in remembered
    assert fingerprint(1, "<**#glm**>") in remembered


def test_a_fingerprint_is_short_and_stays_the_same() -> None:
    assert fingerprint(3, "<**clear**>") == "3bc94a144c3f575f"
    assert fingerprint(3, "\ud800") != fingerprint(3, "\ud801")
    assert fingerprint(1, "1 a") != fingerprint(11, " a")
