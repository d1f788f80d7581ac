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
_DOUBT = re.compile(
    r"\b(?:not|once|until|when|if|after|before|unless)\b|未|没|等|如果|直到", re.IGNORECASE
)


def none_left(text: str) -> bool:
    """Whether the text states that all tasks are done; a condition or a denial is no statement."""
    return any(
        not _DOUBT.search(_sentence_before(text, match.start()))
        for match in _NONE_LEFT.finditer(text)
    )


def _sentence_before(text: str, at: int) -> str:
    return re.split(r"[.!?\n。！？]", text[max(0, at - 80) : at])[-1]
