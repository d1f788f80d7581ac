"""Text cut into tokens: the pieces in which a model's answer arrives."""

from __future__ import annotations

import re

HAN = "\u3400-\u9fff"
TOKEN = re.compile(rf"[{HAN}]{{1,2}}|\s*[^\s{HAN}]+|\s+")
HAN_SIGN = re.compile(f"[{HAN}]")
KANA = re.compile("[\u3040-\u30ff]")
LONGEST_PIECE = 12
LOOKED_AT = 2000


def tokens_of(text: str) -> tuple[str, ...]:
    """Cut a text into words with the space before them, or one or two Han signs."""
    return tuple(TOKEN.findall(text))


def pieces_of(arguments: str) -> tuple[str, ...]:
    """Cut a call's arguments into several short pieces."""
    size = min(LONGEST_PIECE, max(1, -(-len(arguments) // 3)))
    return tuple(arguments[at : at + size] for at in range(0, len(arguments), size))


def is_chinese(text: str) -> bool:
    """Whether a text is to be answered in Chinese; kana makes it Japanese."""
    start = text[:LOOKED_AT]
    return bool(HAN_SIGN.search(start)) and not KANA.search(start)
