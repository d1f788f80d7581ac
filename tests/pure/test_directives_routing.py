"""What directives do to routes."""

from functools import reduce

import msgspec
import pytest

from gateway.exchange.model import Route
from gateway.sessions.directives.model import Target
from gateway.sessions.directives.reader import read
from gateway.sessions.directives.routing import (
    Routing,
    candidates,
    find_forced_route,
    in_force,
    no_route,
    routing_after,
)

UPSTREAMS = ("glm", "openai", "kimi")
GLM, GPT, KIMI = Route("glm", "glm-4.7"), Route("openai", "gpt-5"), Route("kimi", "k2")
ROUTES = (GLM, GPT, KIMI)


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
    forced = find_forced_route(said)
    assert forced == Route("openai", "o9")
    assert candidates(ROUTES, Routing(allow=("kimi",)), forced) == (forced,)
    assert find_forced_route(said[1:2]) is None


def test_the_error_names_what_is_in_force() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.glm-4.7**> <**#glm,kimi.k2,kimi**>")
    assert no_route("default", routing) == (
        "No upstream is left for 'default' with the directives in force (<**!glm,kimi**>, "
        "<**!glm.glm-4.7**>, <**#glm,kimi.k2,kimi**>); send <**clear**> to remove them."
    )
    assert in_force(Routing()) == ()


def test_what_is_written_as_in_force_says_the_same_again() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.a/b:c.d**> <**#openai,glm.x**>")
    assert routed(" ".join(in_force(routing))) == routing


def test_routing_survives_a_file() -> None:
    routing = routed("<**!glm,kimi**> <**!glm.glm-4.7**> <**#openai,glm.x**>")
    assert msgspec.json.decode(msgspec.json.encode(routing), type=Routing) == routing
