"""Whether a conversation says that no work is left, as task trackers and agents put it."""

from __future__ import annotations

import re

_NONE_LEFT = re.compile(
    r"""
      \ball\s+(?:the\s+|of\s+the\s+|open\s+|remaining\s+)*
        (?:tasks?|issues?|todos?|beads?|work\s+items?)\s+
        (?:are\s+|is\s+|have\s+been\s+|were\s+)?(?:now\s+)?
        (?:done|closed|complete[d]?|finished|resolved)\b
    | \bno\s+(?:more\s+)?(?:ready\s+work|open\s+(?:issues|tasks|beads))\b
    | \bno\s+(?:more\s+)?(?:tasks|issues)\s+(?:left|remain(?:ing)?)\b
    | \b(?:0|zero)\s+(?:open|in[_\s-]progress|ready)\s+(?:issues|tasks)\b
    | (?:所有|全部)(?:的)?(?:任务|工作|问题|事项)(?:都)?(?:已经|已)?(?:完成|关闭|结束|解决)
    | 没有(?:任何)?(?:待处理|未完成|剩余)的?(?:任务|工作|事项)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_DOUBT_BEFORE = re.compile(
    r"\b(?:not|never|cannot|once|until|when|if|after|before|unless|whether|will|ensure|make\s+sure)\b"
    r"|n['’]t\b|['’]ll\b|未|没|等|如果|直到|是否|确保",
    re.IGNORECASE,
)
_DOUBT_AFTER = re.compile(r"\b(?:except|but|apart\s+from)\b|除|[?？]\Z", re.IGNORECASE)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?\n。！？])")
# What was said last counts, and a sentence is no longer than this.
LOOKED_AT = 64 * 1024
SENTENCE = 80


def none_left(text: str) -> bool:
    """Whether the text states that all tasks are done; a doubt, a denial, a question is no such."""
    text = text[-LOOKED_AT:]
    return any(_is_stated(text, match) for match in _NONE_LEFT.finditer(text))


def _is_stated(text: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    before = _SENTENCE_ENDS.split(text[max(0, start - SENTENCE) : start])[-1]
    after = _SENTENCE_ENDS.split(text[end : end + SENTENCE])[0]
    return not (_DOUBT_BEFORE.search(before) or _DOUBT_AFTER.search(after))
