"""Directives in text: every form that can be written, and what is left of the text."""

from typing import get_args

import pytest

from gateway.sessions.directives import reader as directives
from gateway.sessions.directives.model import (
    AllowOnly,
    Clear,
    ClearReminders,
    ClearStopMessage,
    Directive,
    Exclude,
    ForceRoute,
    Found,
    PreferRoute,
    SetReminder,
    SetStopMessage,
    SetStopMessageFile,
    TakeBack,
    Target,
    Unreadable,
)
from gateway.sessions.directives.reader import (
    LONGEST_BYTES,
    LONGEST_TEXT_BYTES,
    MOST_IN_A_TEXT,
    MOST_MARKS,
    PASSES,
    Reading,
    fill_empty,
    may_contain,
    read,
)

UPSTREAMS = ("glm", "openai", "my-up_2")
NOON = '{"time":"2026-02-02T12:00:00Z","message":"lunch"}'


def only(text: str) -> Directive | Unreadable:
    """The one directive of a text that consists of it."""
    reading = read(text, UPSTREAMS)
    assert reading.text == ""
    assert [found.source for found in reading.directives] == [text]
    return reading.directives[0].directive


def values(text: str) -> list[Directive | Unreadable]:
    return [found.directive for found in read(text, UPSTREAMS).directives]


FORMS: list[tuple[str, Directive]] = [
    # stopMessage, quoted
    ('<**stopMessage:"go on",3**>', SetStopMessage("go on", 3)),
    ('<**stopMessage:"go on"**>', SetStopMessage("go on")),
    ('<**stopMessage:"立即执行待处理任务",3**>', SetStopMessage("立即执行待处理任务", 3)),
    (r'<**stopMessage:"say \"hi\"",2**>', SetStopMessage('say "hi"', 2)),
    (r'<**stopMessage:"a\\b\nc"**>', SetStopMessage("a\\b\nc")),
    (r'<**stopMessage:"ends in \\",2**>', SetStopMessage("ends in \\", 2)),
    (r'<**stopMessage:"\t \d"**>', SetStopMessage(r"\t \d")),
    ('<**stopMessage:"a **> b",2**>', SetStopMessage("a **> b", 2)),
    ('<**stopMessage:"say <**clear**> now"**>', SetStopMessage("say <**clear**> now")),
    ('<**stopMessage:"clear"**>', SetStopMessage("clear")),
    ('<**stopMessage:" kept "**>', SetStopMessage(" kept ")),
    ('<**stopMessage:"a,7"**>', SetStopMessage("a,7")),
    ('<**stopMessage:"one\n\ntwo",2**>', SetStopMessage("one\n\ntwo", 2)),
    ('<**stopMessage:"run\n```\nmake\n```\n",2**>', SetStopMessage("run\n```\nmake\n```\n", 2)),
    ('<**stopMessage:"don`t stop"**>', SetStopMessage("don`t stop")),
    ('<**stopMessage:"<file://a.md>"**>', SetStopMessage("<file://a.md>")),
    ('<**stopMessage:"' + "\ud800" + '"**>', SetStopMessage("\ud800")),
    # its count
    ('<**stopMessage:"a",0**>', SetStopMessage("a")),
    ('<**stopMessage:"a",-2**>', SetStopMessage("a")),
    ('<**stopMessage:"a",many**>', SetStopMessage("a")),
    ('<**stopMessage:"a",**>', SetStopMessage("a")),
    ('<**stopMessage:"a",3.5**>', SetStopMessage("a")),
    ('<**stopMessage:"a",3,4**>', SetStopMessage("a")),
    ('<**stopMessage:"a",007**>', SetStopMessage("a", 7)),
    ('<**stopMessage:"a",' + "9" * 5000 + "**>", SetStopMessage("a")),
    ('<**stopMessage:"a" , 3 **>', SetStopMessage("a", 3)),
    # unquoted
    ("<**stopMessage:go on,3**>", SetStopMessage("go on", 3)),
    ("<**stopMessage:go on**>", SetStopMessage("go on")),
    ("<**stopMessage: first, then second , 4 **>", SetStopMessage("first, then second", 4)),
    ("<**stopMessage:1,2,3**>", SetStopMessage("1,2", 3)),
    ("<**stopMessage:go on,0**>", SetStopMessage("go on")),
    ("<**stopMessage:go on,-3**>", SetStopMessage("go on,-3")),
    ("<**stopMessage:go on,x**>", SetStopMessage("go on,x")),
    ("<**stopMessage:in 2026**>", SetStopMessage("in 2026")),
    (r"<**stopMessage:a\nb**>", SetStopMessage(r"a\nb")),
    ('<**stopMessage:say "hi" twice,2**>', SetStopMessage('say "hi" twice', 2)),
    ("<**stopMessage:two\nlines**>", SetStopMessage("two\nlines")),
    ("<**stopMessage:run `a **> b`,2**>", SetStopMessage("run `a **> b`", 2)),
    ("<**stopMessage:explain `<**clear**>`**>", SetStopMessage("explain `<**clear**>`")),
    ("<**stopMessage:clear,3**>", SetStopMessage("clear", 3)),
    ("<**stopMessage:bold***>", SetStopMessage("bold*")),
    # from a file
    ("<**stopMessage:<file://name.md>,3**>", SetStopMessageFile("name.md", 3)),
    ("<**stopMessage:<file://name.md>**>", SetStopMessageFile("name.md")),
    ("<**stopMessage: < FILE:// sub/a b.md > , x**>", SetStopMessageFile("sub/a b.md")),
    ("<**stopMessage:<file:///etc/passwd>**>", SetStopMessageFile("/etc/passwd")),
    # clear
    ("<**stopMessage:clear**>", ClearStopMessage()),
    ("<**StopMessage : CLEAR **>", ClearStopMessage()),
    ("<**clock:clear**>", ClearReminders()),
    ("<** CLOCK : Clear **>", ClearReminders()),
    ("<**clear**>", Clear()),
    ("<**\n\tCLEAR  **>", Clear()),
    # reminders
    (f"<**clock:{NOON}**>", SetReminder("2026-02-02T12:00:00Z", "lunch")),
    (f"<**clock: {NOON} **>", SetReminder("2026-02-02T12:00:00Z", "lunch")),
    ('<**clock:{"time":"t","message":"a **> b"}**>', SetReminder("t", "a **> b")),
    (r'<**clock:{"time":"t","message":"\"**>\""}**>', SetReminder("t", '"**>"')),
    ('<**clock:{\n  "message": "m",\n  "time": "t"\n}**>', SetReminder("t", "m")),
    # routing
    ("<**!glm**>", AllowOnly(("glm",))),
    ("<**!glm,openai**>", AllowOnly(("glm", "openai"))),
    ("<** ! glm , openai,, glm **>", AllowOnly(("glm", "openai"))),
    ("<**!glm,\nopenai**>", AllowOnly(("glm", "openai"))),
    ("<**!GLM**>", AllowOnly(("glm",))),
    ("<**!My-Up_2**>", AllowOnly(("my-up_2",))),
    ("<**!glm.glm-4.7**>", PreferRoute("glm", "glm-4.7")),
    ("<**!Glm . org/model:free**>", PreferRoute("glm", "org/model:free")),
    ("<**glm.glm-4.7**>", ForceRoute("glm", "glm-4.7")),
    ("<** OpenAI . gpt-5 **>", ForceRoute("openai", "gpt-5")),
    ("<**glm.a/b:c-d.e_f**>", ForceRoute("glm", "a/b:c-d.e_f")),
    ("<**#glm**>", Exclude((Target("glm"),))),
    ("<**#glm.glm-4.7,openai**>", Exclude((Target("glm", "glm-4.7"), Target("openai")))),
    ("<**#glm,glm**>", Exclude((Target("glm"),))),
    ("<**@glm**>", TakeBack((Target("glm"),))),
    ("<**@ GLM , openai.gpt-5 **>", TakeBack((Target("glm"), Target("openai", "gpt-5")))),
    # zero-width characters, wherever white space may stand
    ("<**\u200b\ufeffclear\u2060**>", Clear()),
    ("<**\u200dstopMessage\u200c:\u200b\u200bgo\ufeff**>", SetStopMessage("go")),
    ("<**\u200b!\u200bglm\u200b**>", AllowOnly(("glm",))),
    # as Chinese input methods write it
    ("<**stopMessage：“继续”，3**>", SetStopMessage("继续", 3)),
    (r"<**stopMessage：“说\“好\””**>", SetStopMessage("说“好”")),
    ("<**stopMessage：“a **> b”**>", SetStopMessage("a **> b")),
    ("<**stopMessage：继续，３**>", SetStopMessage("继续", 3)),
    ("<**clock：clear**>", ClearReminders()),
    (f"<**clock：{NOON}**>", SetReminder("2026-02-02T12:00:00Z", "lunch")),
    ("<**！glm，openai**>", AllowOnly(("glm", "openai"))),
    ("<**!glm\u3000**>", AllowOnly(("glm",))),
    ("<**＃glm**>", Exclude((Target("glm"),))),
    ("<**＃glm。glm-4.7、openai**>", Exclude((Target("glm", "glm-4.7"), Target("openai")))),
    ("<**＠glm**>", TakeBack((Target("glm"),))),
    ("<**！glm．glm-4.7**>", PreferRoute("glm", "glm-4.7")),
    ("<**glm。glm-4.7**>", ForceRoute("glm", "glm-4.7")),
    ("<**stopMessage：＂继续＂，2**>", SetStopMessage("继续", 2)),
    (r"<**stopMessage：＂说\＂好\＂＂**>", SetStopMessage("说＂好＂")),
    ("<**clock：｛“time”：“t”，“message”：“喝茶，**”｝**>", SetReminder("t", "喝茶，**")),
    ('<**clock:{"time":"t","message":"“好”，：｛｝"}**>', SetReminder("t", "“好”，：｛｝")),
]


@pytest.mark.parametrize("text, value", FORMS)
def test_each_form(text: str, value: Directive) -> None:
    assert only(text) == value


NOT_CLOSED = "the quote or file name is not closed, or more than a count follows it"
JSON = "the reminder cannot be read: "
UNREADABLE = [
    ("<**stopMessage:**>", "stopMessage", "the text is empty"),
    ("<**stopMessage: ,3**>", "stopMessage", "the text is empty"),
    ('<**stopMessage:"",3**>', "stopMessage", "the text is empty"),
    ('<**stopMessage:" \u200b"**>', "stopMessage", "the text is empty"),
    ("<**stopMessage:“”**>", "stopMessage", "the text is empty"),
    ('<**stopMessage:"go on,3**>', "stopMessage", NOT_CLOSED),
    ("<**stopMessage:“go on,3**>", "stopMessage", NOT_CLOSED),
    ('<**stopMessage:"go" on**>', "stopMessage", NOT_CLOSED),
    ("<**stopMessage:<file://a.md,3**>", "stopMessage", NOT_CLOSED),
    ("<**stopMessage:<file://a.md> 3**>", "stopMessage", NOT_CLOSED),
    ("<**stopMessage:<file:a.md>**>", "stopMessage", NOT_CLOSED),
    ("<**stopMessage:<file:// >**>", "stopMessage", "the file name is empty"),
    ("<**clock:**>", "clock", "use clear, or a JSON object with time and message"),
    ('<**clock:"clear"**>', "clock", "use clear, or a JSON object with time and message"),
    ('<**clock:{"time":"t"}**>', "clock", JSON + "Object missing required field `message`"),
    (
        '<**clock:{"time":"t","message":1}**>',
        "clock",
        JSON + "Expected `str`, got `int` - at `$.message`",
    ),
    ('<**clock:{"every":"1h"}**>', "clock", JSON + "Object contains unknown field `every`"),
    ('<**clock:{"é\\"":1}**>', "clock", JSON + "Object contains unknown field `??`"),
    ('<**clock:{"time":"","message":"m"}**>', "clock", "time is empty"),
    ('<**clock:{"time":"t","message":" "}**>', "clock", "message is empty"),
    ("<**!**>", "!", "no upstream is named"),
    ("<**#,**>", "#", "no upstream is named"),
    ("<**@**>", "@", "no upstream is named"),
    ("<**!gml**>", "!", "no upstream is called 'gml'; did you mean 'glm'?"),
    ("<**#OpenAPI**>", "#", "no upstream is called 'OpenAPI'; did you mean 'openai'?"),
    ("<**@zzz**>", "@", "no upstream is called 'zzz'"),
    ("<**!glm,zzz**>", "!", "no upstream is called 'zzz'"),
    ("<**!glm zzz**>", "!", "no upstream is called 'glm zzz'; did you mean 'glm'?"),
    ('<**!é"\\' + "z" * 50 + "**>", "!", "no upstream is called '???" + "z" * 37 + "'"),
    ("<**!glm.**>", "!", "no model is called ''"),
    ("<**#glm.a b**>", "#", "no model is called 'a b'"),
    ("<**!glm.a,openai**>", "!", "use a list of upstreams, or one upstream.model"),
    ("<**!openai,glm.a**>", "!", "use a list of upstreams, or one upstream.model"),
]


@pytest.mark.parametrize("text, keyword, reason", UNREADABLE)
def test_what_cannot_be_read_is_removed_and_explained(text: str, keyword: str, reason: str) -> None:
    assert only(text) == Unreadable(keyword, reason)


def test_broken_json_is_explained() -> None:
    found = only('<**clock:{"time":**>')
    assert isinstance(found, Unreadable)
    assert found.reason.startswith("the reminder cannot be read: Input data was truncated")
    surrogate = only('<**clock:{"time":"\ud800","message":"m"}**>')
    assert isinstance(surrogate, Unreadable)


KNOWN = "known directives: stopMessage:text, clock:clear, clear, !upstream, #upstream, @upstream, upstream.model"
UNKNOWN = [
    ("<****>", "", KNOWN),
    ("<** **>", "", KNOWN),
    ("<**unknown**>", "unknown", KNOWN),
    ("<**important: read this**>", "important", KNOWN),
    ('<**stopmesage:"go on",3**>', "stopmesage", "did you mean <**stopMessage:text**>?"),
    ("<**clearly**>", "clearly", "did you mean <**clear**>?"),
    ("<**clear all**>", "clear all", "did you mean <**clear**>?"),
    ("<**clear***>", "clear*", "did you mean <**clear**>?"),
    ("<**stopMessage**>", "stopMessage", "did you mean <**stopMessage:text**>?"),
    ("<**stop**>", "stop", "did you mean <**stopMessage:text**>?"),
    ("<**stopMessages：go**>", "stopMessages", "did you mean <**stopMessage:text**>?"),
    ("<**stop Message:go**>", "stop Message", "did you mean <**stopMessage:text**>?"),
    ("<**stop\u200bMessage:go**>", "stop?Message", "did you mean <**stopMessage:text**>?"),
    ("<**clock**>", "clock", "did you mean <**clock:clear**>?"),
    ('<**clok:{"time":"t"}**>', "clok", "did you mean <**clock:clear**>?"),
    # an upstream alone, no upstream, no model, more than one
    ("<**glm**>", "glm", "did you mean <**!glm**>?"),
    ("<**Openai**>", "Openai", "did you mean <**!openai**>?"),
    ("<**x.y**>", "x.y", KNOWN),
    ("<**gml.glm-4.7**>", "gml.glm-4.7", "did you mean <**glm.glm-4.7**>?"),
    ("<**v1.2**>", "v1.2", KNOWN),
    ("<**glm.**>", "glm.", "did you mean <**glm.model**>?"),
    ("<**.glm**>", ".glm", KNOWN),
    ("<**glm.a,glm.b**>", "glm.a", "did you mean <**glm.a**>?"),
    ("<**glm. A sentence.**>", "glm. A sentence.", "did you mean <**glm.A sentence.**>?"),
    ('<**glm."a"**>', "glm.", "did you mean <**glm.model**>?"),
    ("<**" + "é" * 50 + "**>", "?" * 40, KNOWN),
    ("<**use `x` here**>", "use `x` here", KNOWN),
]


@pytest.mark.parametrize("text, called, hint", UNKNOWN)
def test_an_unknown_mark_is_removed_and_the_nearest_directive_named(
    text: str, called: str, hint: str
) -> None:
    assert only(text) == Unreadable("unknown", f"no directive is called '{called}'; {hint}")


@pytest.mark.parametrize("text", [text for text, _, _ in UNKNOWN])
def test_unknown_marks_are_left_where_the_operator_wants_them(text: str) -> None:
    text = f"a {text} b"
    assert read(text, UPSTREAMS, keep_unknown=True) == Reading(text, ())
    known = read(f"{text}<**clear**>", UPSTREAMS, keep_unknown=True)
    assert (known.text, len(known.directives)) == (text, 1)


def test_the_longest_unknown_mark() -> None:
    inside = "é" * ((LONGEST_BYTES - 6) // 2)
    assert read(f"a<**{inside}**>", UPSTREAMS).text == "a"
    for longer in (inside + "x", "x" * LONGEST_BYTES):
        text = f"a<**{longer}**>"
        assert read(text, UPSTREAMS) == Reading(text, ())


LEFT = [
    "no directive at all",
    "",
    "<**",
    "**>",
    "<**>",
    "<**clear*>",
    "<**clear* *>",
    "< **clear**>",
    "<*\u200b*clear**>",
    # never closed
    "<**clear",
    "<**clear** >",
    '<**stopMessage:"go on",3',
    "<**stopMessage:go on",
    "<**!glm",
    # an unknown mark has no line break in it
    "<**unknown\n**>",
    "<**\runknown**>",
    # a stray mark takes no paragraphs away
    "<**! This is no name.\n\nNeither is this.**>",
    "<**#\nglm x\ny**>",
]


@pytest.mark.parametrize("text", LEFT)
def test_text_that_is_no_directive_is_left_as_it_is(text: str) -> None:
    assert read(text, UPSTREAMS) == Reading(text, ())


def test_several_keep_their_order_and_all_else_stays() -> None:
    text = " \u200bFix it. <**!glm**> Now<**stopMessage:go,2**>!\r\n<**z\n**> <**#gml**>\t"
    assert read(text, UPSTREAMS) == Reading(
        " \u200bFix it.  Now!\r\n<**z\n**> \t",
        (
            Found(AllowOnly(("glm",)), "<**!glm**>"),
            Found(SetStopMessage("go", 2), "<**stopMessage:go,2**>"),
            Found(
                Unreadable("#", "no upstream is called 'gml'; did you mean 'glm'?"), "<**#gml**>"
            ),
        ),
    )


def test_a_quote_that_is_not_closed_takes_no_more_than_its_directive() -> None:
    reading = read('<**stopMessage:"go,3**> he said "hello", then left **> x', UPSTREAMS)
    assert reading.text == ' he said "hello", then left **> x'
    assert reading.directives[0].directive == Unreadable("stopMessage", NOT_CLOSED)


@pytest.mark.parametrize(
    "text, found, rest",
    [
        ("<**<**clear**>clear**>", [Clear()], ""),
        ("<**clock:<**clear**>clear**>", [Clear()], ""),
        ("<*<**clear**>*clock:clear**>", [Clear()], ""),
        ("<**stopMessage:say <**clear**> now**>", [Clear()], ""),
        ("<**foo <**clear**> bar**>", [Clear()], ""),
    ],
)
def test_what_comes_about_by_removal_is_removed_but_does_not_act(
    text: str, found: list[Directive], rest: str
) -> None:
    assert values(text) == found
    assert read(text, UPSTREAMS).text == rest


def test_deep_nesting_loses_its_marks() -> None:
    depth = PASSES + 3
    reading = read("2 < 3 ** 4 " + "<**" * depth + "clear**>" * depth, UPSTREAMS)
    assert [found.directive for found in reading.directives] == [Clear()]
    assert reading.text == "2 < 3 ** 4 " + "clear**>" * (depth - PASSES)


@pytest.mark.parametrize("quote", ['"', ""])
def test_the_longest_directive(quote: str) -> None:
    around = len(f"<**stopMessage:{quote}{quote}**>")
    fits = "é" * ((LONGEST_BYTES - around) // 2)
    assert only(f"<**stopMessage:{quote}{fits}{quote}**>") == SetStopMessage(fits)
    assert only(f"<**stopMessage:{quote}{fits}éé{quote}**>") == Unreadable(
        "stopMessage", "it is longer than 8192 bytes"
    )


def test_a_long_route_is_named() -> None:
    found = only("<**glm." + "m" * LONGEST_BYTES + "**>")
    assert found == Unreadable("route", "it is longer than 8192 bytes")


def test_more_than_anybody_needs_are_removed_and_not_read() -> None:
    reading = read("<**clear**>" * MOST_IN_A_TEXT + "<**a**><**!b**>.", UPSTREAMS)
    assert reading.text == "."
    assert [found.directive for found in reading.directives[:-1]] == [Clear()] * MOST_IN_A_TEXT
    assert reading.directives[-1] == Found(
        Unreadable("directives", "more than 64 directives in one text"), "<**a**>"
    )


def test_a_text_with_too_many_marks_is_left_as_it_is() -> None:
    fits = "<**clear**>" * (MOST_MARKS - 1) + "`<**`"
    assert read(fits, UPSTREAMS).text == "`<**`"
    text = fits + "<**"
    reason = "a text with more than 1000 marks is not searched"
    assert read(text, UPSTREAMS) == Reading(text, (Found(Unreadable("directives", reason), ""),))


@pytest.mark.parametrize("letter", ["a", "é", "\ud800"])
def test_a_text_that_is_too_long_is_left_as_it_is(letter: str) -> None:
    size = len(letter.encode(errors="surrogatepass"))
    room, rest = divmod(LONGEST_TEXT_BYTES - len("<**clear**>"), size)
    fits = letter * room + "." * rest
    assert read(f"{fits}<**clear**>", UPSTREAMS).text == fits
    text = f"{fits}.<**clear**>"
    reason = "a text of more than 1048576 bytes is not searched"
    assert read(text, UPSTREAMS) == Reading(text, (Found(Unreadable("directives", reason), ""),))
    assert read(fits * 2, UPSTREAMS) == Reading(fits * 2)


def test_upstreams_are_matched_exactly_before_letter_case_is_ignored() -> None:
    names = {"Glm", "glm", "OPENAI"}
    written = "<**!glm**><**!Glm**><**!openai**><**OpenAI.x**><**!GLM**>"
    found = [found.directive for found in read(written, names).directives]
    assert found[:4] == [
        AllowOnly(("glm",)),
        AllowOnly(("Glm",)),
        AllowOnly(("OPENAI",)),
        ForceRoute("OPENAI", "x"),
    ]
    assert found[4] == AllowOnly(("glm",))


@pytest.mark.parametrize(
    "text, sent",
    [("", "."), (" \n\t", "."), ("\u200b\ufeff", "."), (".", "."), (" a ", " a "), ("<**", "<**")],
)
def test_an_emptied_message_is_a_dot(text: str, sent: str) -> None:
    assert fill_empty(text) == sent


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b'[{"role":"user","content":"<**clear**>"}]', True),
        (rb'"\u003c**clear**>"', True),
        (rb'"\u003C\u002a\u002a"', True),
        (rb'"<\u002A*"', True),
        (rb'"<*\u002a"', True),
        (b'"plain"', False),
        (rb'"\u00e9 \u4e2d"', False),
        (b'"< ** *<*"', False),
    ],
)
def test_the_quick_filter_lets_no_directive_pass(raw: bytes, expected: bool) -> None:
    assert may_contain(raw) is expected


def test_every_directive_there_is_comes_through_the_one_door() -> None:
    assert {kind.__name__ for kind in get_args(Directive)} <= set(directives.__all__)
