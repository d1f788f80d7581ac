"""Places that are no place for a directive: code and quotes, as Markdown has them."""

import pytest

from gateway.sessions.directives.reader import Reading, read

UPSTREAMS = ("glm", "openai")

IN_CODE = [
    # fences
    "```\n<**clear**>\n```",
    "```sh\n<**clear**>\n```\n",
    "```\n<**clear**>",
    "```\n\n<**clear**>\n\n",
    "~~~\n<**clear**>\n~~~",
    "~~~ a`b ~~~\n<**clear**>",
    "text\n```\n<**clear**>\n```",
    "   ```\n<**clear**>\n   ```",
    "````\n```\n<**clear**>\n````",
    "```\n~~~\n<**clear**>\n```",
    "```\n``` x\n<**clear**>\n```",
    "```\n    ```\n<**clear**>\n```",
    "```\r\n<**clear**>\r\n```\r\n",
    "``` <**clear**>\ncode\n```",
    "- ```\n  <**clear**>\n  ```",
    "10. ```\n    <**clear**>\n\n    ```",
    "  1) ~~~\n<**clear**>",
    "x\n   123456789.    ```\n<**clear**>",
    # fences that begin in the middle of a line
    "see ```\n<**clear**>\n```",
    "see ```\n\n<**clear**>\n\n```",
    "see ```sh\n\n<**clear**>\n\nx``` y",
    "see ```c++ \r\n\r\n<**clear**>",
    "see ```\n\n<**clear**>\n\n````",
    "see ```\n\n`x` <**clear**>\n\n```",
    "see ~~~\n\n<**clear**>\n~~~",
    "see ~~~~\n~~~\n<**clear**>\n  ~~~~~ ",
    "see ~~~\n~~~\nthen ~~~\n\n<**clear**>\n~~~",
    "- see ```\n\n  <**clear**>\n\n  ```",
    "<**clear` **>`",
    # indented
    "    <**clear**>",
    "\t<**clear**>",
    "  \t<**clear**>",
    "\n \n    <**clear**>\n",
    "    > <**clear**>",
    "text\n\n    <**clear**>",
    "text\n \t\r\n\n    a\n\n    <**clear**>\n\ntext",
    "# title\n\n\t```\n\n\t<**clear**>\n",
    "    ```\n    <**clear**>\n",
    "- item\n\n      <**clear**>",
    "10. item\n\n\t\t<**clear**>",
    "a\n\n    x\n\nb\n\n    <**clear**>",
    "    x\nb\n\n    <**clear**>",
    # inline
    "`<**clear**>`",
    "a `<**clear**>` b",
    "``<**clear**>``",
    "`` ` <**clear**> ``",
    "` `` <**clear**> `",
    "`a\n<**clear**>\nb`",
    "`a\n#b <**clear**>`",
    "`a\\` `<**clear**>`",
    "\\\\`<**clear**>`",
    "\\``<**clear**>`",
    "```<**clear**>```",
    "    ```\n    <**clear**>\n    ```",
    # a lone backtick reaches no further than its paragraph
    "a ` b\n\n`<**clear**>`",
    "a ` b\n# title\n`<**clear**>`",
    "a ` b\n---\n`<**clear**>`",
    "- a ` b\n- `<**clear**>`",
    "1. a ` b\n2. `<**clear**>`",
    "a ` b\n> c\n`<**clear**>`",
    "a ` b\n~~~\n~~~\n`<**clear**>`",
    "a ``` b\n```\n<**clear**>",
    # quotes
    "> <**clear**>",
    "   > <**clear**>",
    "text\n> <**clear**>\ntext",
    ">> <**clear**>",
    "- > <**clear**>",
    "> <**stopMessage:\n> go**>",
    # what begins outside of code does not end in it
    "<**clear`**>`",
    "<**stopMessage:go\n```\n**>\n```",
    "<**stopMessage:go\n> **>",
]


@pytest.mark.parametrize("text", IN_CODE)
def test_nothing_acts_in_code_or_quotes(text: str) -> None:
    assert read(text, UPSTREAMS) == Reading(text, ())


BESIDE_CODE = [
    ("```\ncode\n```\n<**clear**>", "```\ncode\n```\n"),
    ("```\ncode\n````  \n<**clear**>", "```\ncode\n````  \n"),
    ("~~~\ncode\n   ~~~\n<**clear**>", "~~~\ncode\n   ~~~\n"),
    ("```\r\ncode\r\n```\r\n<**clear**>", "```\r\ncode\r\n```\r\n"),
    ("- ```\n  a\n  ```\n<**clear**>", "- ```\n  a\n  ```\n"),
    ("    ```\n\n<**clear**>", "    ```\n\n"),
    ("    ~~~\n<**clear**>", "    ~~~\n"),
    ("x ~~~\n<**clear**>", "x ~~~\n"),
    ("``` a ``` <**clear**>", "``` a ``` "),
    ("` <**clear**>", "` "),
    ("`` <**clear**> `", "``  `"),
    ("`a` <**clear**> `b`", "`a`  `b`"),
    ("\\`<**clear**>\\`", "\\`\\`"),
    ("a ` b\n\n<**clear**> ` c", "a ` b\n\n ` c"),
    ("> quoted\n<**clear**>", "> quoted\n"),
    ("a ``` b\n\n<**clear**>", "a ``` b\n\n"),
    ("see ```\n\na\n``` <**clear**>", "see ```\n\na\n``` "),
    ("see ~~~\n\na\n~~~\n<**clear**>", "see ~~~\n\na\n~~~\n"),
    ("ok~~~\n<**clear**> bye~~~", "ok~~~\n bye~~~"),
    ("ok~~~~\n<**clear**>\n~~~", "ok~~~~\n\n~~~"),
    ("text\n    <**clear**>", "text\n    "),
    ("text\n\n   <**clear**>", "text\n\n   "),
    ("text\n\n    code\n<**clear**>", "text\n\n    code\n"),
    ("    code\n\n<**clear**>", "    code\n\n"),
    ("- item\n\n    <**clear**>", "- item\n\n    "),
    ("- item\n  more\n\n    <**clear**>", "- item\n  more\n\n    "),
    ("10. item\n\n      <**clear**>", "10. item\n\n      "),
    (" <**clear**>\n\n<**clear**>", " \n\n"),
    ("a > <**clear**>", "a > "),
    ("<**clear**>> <**clear**>", "> "),
    ("it <**clear**> is\n> a quote", "it  is\n> a quote"),
    ("<**clear**>```\ncode\n```", "```\ncode\n```"),
    ('<**stopMessage:"`"**> and `code`', " and `code`"),
    ('<**stopMessage:"a\n```\nb"**> <**clear**>', " "),
]


@pytest.mark.parametrize("text, rest", BESIDE_CODE)
def test_beside_code_directives_act(text: str, rest: str) -> None:
    reading = read(text, UPSTREAMS)
    assert reading.directives
    assert reading.text == rest
