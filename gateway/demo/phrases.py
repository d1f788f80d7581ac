"""The two languages of the demo model, and what it says; the sentences stand in phrases.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

HAN = "\u3400-\u9fff"
HAN_SIGN = re.compile(f"[{HAN}]")
KANA = re.compile("[\u3040-\u30ff]")
LOOKED_AT = 2000


class Phrases:
    """The sentences of one language, by name."""

    def __init__(self, catalogue: Mapping[str, Any]) -> None:
        self._sentences: Mapping[str, str] = catalogue
        self.space: str = catalogue["space"]
        self.some_jokes: list[str] = catalogue["some_jokes"]
        self.some_words: list[str] = catalogue["some_words"]

    def say(self, name: str, /, **values: object) -> str:
        """Return a sentence with its values filled in."""
        return self._sentences[name].format(**values)


_CATALOGUES = tomllib.loads(files("gateway.demo").joinpath("phrases.toml").read_text("utf-8"))
ENGLISH, CHINESE = Phrases(_CATALOGUES["english"]), Phrases(_CATALOGUES["chinese"])


def phrases_for(text: str) -> Phrases:
    """Choose the language to answer in."""
    return CHINESE if is_chinese(text) else ENGLISH


def is_chinese(text: str) -> bool:
    """Whether a text is to be answered in Chinese; kana makes it Japanese."""
    start = text[:LOOKED_AT]
    return bool(HAN_SIGN.search(start)) and not KANA.search(start)
