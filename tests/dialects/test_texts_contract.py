"""What every dialect owes when the texts of users are found and changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.dialects import DIALECTS


@dataclass(frozen=True, slots=True)
class Words:
    """How a dialect writes a request: where its messages stand, and what their parts are."""

    dialect: str
    member: str
    text: str
    image: dict[str, Any]

    def body(self, *messages: Any) -> bytes:
        """Write a request."""
        return json.dumps({"model": "m", self.member: messages}).encode()

    def part(self, words: str) -> dict[str, Any]:
        """Write a text as a part of a message."""
        return {"type": self.text, "text": words}


ALL = (
    Words("openai-chat", "messages", "text", {"type": "image_url", "image_url": {"url": "u"}}),
    Words("anthropic-messages", "messages", "text", {"type": "image", "source": {"url": "u"}}),
    Words("openai-responses", "input", "input_text", {"type": "input_image", "image_url": "u"}),
)
each = pytest.mark.parametrize("words", ALL, ids=lambda words: words.dialect)


def test_no_dialect_is_left_out() -> None:
    assert {words.dialect for words in ALL} == set(DIALECTS)


def says(role: Any, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


@each
def test_the_newest_user_message(words: Words) -> None:
    several = [words.part("a"), words.image, words.part("b")]
    cases: list[tuple[list[Any], tuple[int, tuple[str, ...]]]] = [
        ([], (0, ())),
        ([says("assistant", "a")], (0, ())),
        ([says("user", "a")], (1, ("a",))),
        ([says("user", "a"), says("assistant", "b"), says("user", "c")], (2, ("c",))),
        ([says("user", several)], (1, ("a", "b"))),
        ([says("user", [words.image, "a", 7, None, {"text": 5}])], (1, ())),
        ([says("user", None)], (1, ())),
        ([{"role": "user"}], (1, ())),
        ([says("user", {"text": "a"})], (1, ())),
        ([7, None, "user", ["user"], says(7, "a")], (0, ())),
    ]
    dialect = DIALECTS[words.dialect]
    for messages, expected in cases:
        assert dialect.newest_user(words.body(*messages)) == expected, messages


@each
def test_messages_that_are_no_list(words: Words) -> None:
    dialect = DIALECTS[words.dialect]
    assert dialect.newest_user(b'{"model":"m","%b":{}}' % words.member.encode()) == (0, ())
    assert dialect.newest_user(b'{"model":"m"}') == (0, ())


@each
def test_what_becomes_empty(words: Words) -> None:
    """A part is dropped, a message becomes a dot."""
    gone, image = words.part("<**x"), words.image
    cases: list[tuple[Any, Any]] = [
        ("<**x", "."),
        ([gone], [words.part(".")]),
        ([gone, image], [image]),
        ([gone, 7], [7]),
        ([image, "<**"], [image, "<**"]),
        ([], []),
        (None, None),
        (7, 7),
        ({"text": "<**"}, {"text": "<**"}),
    ]
    for content, expected in cases:
        sent = words.body(says("user", content, mark="<**"))
        changed = json.loads(DIALECTS[words.dialect].edit_user_texts(sent, lambda _: ""))
        assert changed[words.member] == [says("user", expected, mark="<**")]


@each
def test_a_body_in_which_nothing_changes_stays_as_it_is(words: Words) -> None:
    sent = b'{ "%b" :[ {"role":"user","content":"<** \\u0041"} ],"model":"m","x":1.10}'
    sent %= words.member.encode()
    assert DIALECTS[words.dialect].edit_user_texts(sent, lambda text: text) is sent


@each
def test_beside_the_text_everything_stays_byte_for_byte(words: Words) -> None:
    """Numbers no float can hold, their spelling, escapes: the upstream's to judge."""
    dialect = DIALECTS[words.dialect]
    others = b'"big":123456789012345678901234567890,"far":1e400,"f":1.10,"e":"\\u00e9\\/"'
    part = b'{"type":"%b","text":"<**",%b}' % (words.text.encode(), others)
    sent = b'{"model":"m","%b":[{"role":"user","content":[%b],%b},{"role" : "user","content":"x", "n":1.0}],"n":1e0}'
    sent %= (words.member.encode(), part, others)
    changed = dialect.edit_user_texts(sent, lambda _: "y")
    assert changed == sent.replace(b'"<**"', b'"y"')
    assert dialect.newest_user(changed) == (2, ("x",))
