"""Whether an answer says that no work is left, in the phrases of task trackers and agents.

This counts only if a whole sentence states it as a fact, and nothing else in the answer names more
work. If unsure, the answer does not count as such a statement: one follow-up too many does less
harm than stopping too early.
"""

from __future__ import annotations

import re

_THINGS = r"(?:tasks|issues|to-?dos|beads|tickets|work\s+items)"
_DONE = r"(?:done|closed|completed?|finished|resolved)"
_STATEMENTS = re.compile(
    rf"""
    (?:(?:yes|ok(?:ay)?|great|perfect|done|finally|now)[,:]?\s+)?
    (?:
      all\s+(?:of\s+)?(?:the\s+|your\s+|our\s+|my\s+)?(?:open\s+|remaining\s+|planned\s+|\d+\s+){{0,2}}
        {_THINGS}\s+(?:(?:are|have\s+been)\s+)?(?:now\s+|all\s+)?{_DONE}
        (?:\s+(?:now|successfully))?
    | (?:there\s+are\s+)?no\s+(?:more\s+)?
        (?:open|pending|unfinished|outstanding|remaining)\s+{_THINGS}
        (?:\s+(?:left|remain|remaining|now|any\s+more))?
    | (?:there\s+are\s+)?no\s+(?:more\s+)?{_THINGS}\s+(?:are\s+)?(?:left|remain|remaining|open)
    | (?:there\s+are\s+)?(?:0|zero)\s+(?:open|pending|remaining)\s+{_THINGS}(?:,\s+\d+\s+closed)?
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CHINESE_THINGS = "(?:任务|工作|问题|事项|待办事项|待办|工单)"
_CHINESE_DONE = "(?:完成|关闭|结束|解决|处理完|做完)"
_CHINESE_STATEMENTS = re.compile(
    rf"""
    (?:(?:好的|是的|太好了|目前|现在|至此)[，,]?)?
    (?:
      (?:所有|全部)的?{_CHINESE_THINGS}(?:都|均)?(?:已经|已)(?:全部)?{_CHINESE_DONE}(?:了|完毕)?
    | (?:所有|全部)的?{_CHINESE_THINGS}(?:都|均|全部)?{_CHINESE_DONE}(?:了|完毕)
    | {_CHINESE_THINGS}(?:都|均)?(?:已经|已)(?:全部|都|均){_CHINESE_DONE}(?:了|完毕)?
    | {_CHINESE_THINGS}(?:全部|都){_CHINESE_DONE}(?:了|完毕)
    | 没有(?:任何|其他)?(?:待处理|未完成|剩余|待办)的?{_CHINESE_THINGS}了?
    )
    """,
    re.VERBOSE,
)
# Words in other sentences that announce more work, or take the statement back.
_MORE_WORK = re.compile(
    r"\b(?:next|remain(?:s|ing)?|left|still|to-?dos?|pending|outstanding|unfinished|incomplete"
    r"|yet|will|shall|going\s+to|needs?|must|should|(?:have|has)\s+to|let\s+me|let['’]s|continu\w+"
    r"|blocked|fails?|failed|(?:is|are)\s+(?:failing|broken)|open|in\s+progress|wait(?:s|ing)?"
    r"|working\s+on|please|(?:I\s+am|I['’]m|we\s+are|we['’]re)\s+(?:now\s+)?\w+ing|thought|wish"
    r"|false|kidding|except|apart\s+from|but|however|although|unless|until"
    r"|once|after\s+that|start(?:ing)?|begin(?:ning)?|more\s+(?:tasks|work|issues)|another"
    r"|follow-?up|almost|nearly|not\s+(?:really|quite|all|every|done|finished|complete\w*|fixed"
    r"|working|passing|tested|true)|(?:want|like)\s+me\s+to|haven['’]t|hasn['’]t|isn['’]t|aren['’]t"
    r"|can['’]t|cannot|['’]ll|partly|mostly|suppose|imagine|pretend|example|assum\w+|claim\w*)\b|['’]ll\b"
    r"|\bI\s+(?:now|am\s+now)\b|\bI['’]m\s+now\b"
    r"|接下来|下一步|下一个|还|仍|剩|尚|待|未|没|不|将|会|需|要|但|然而|除|继续|再|等|如果|若|之后|然后"
    r"|正在|失败|报错|其余|另外|几乎|差点|基本|大部分|非|开始|假如|一旦|直到",
    re.IGNORECASE,
)
# An offer of help does not name work.
_OFFER = re.compile(
    r"(?:please\s+)?(?:let\s+me\s+know|feel\s+free|just\s+(?:ask|tell\s+me))\b"
    r"|if\s+you\b.*\b(?:let\s+me\s+know|tell\s+me|ask|feel\s+free)\b"
    r"|(?:is\s+there\s+)?anything\s+else\b|what['’]?s\s+next\?"
    r"|(?:如果?|若).*(?:告诉我|联系我|随时|说一声)|(?:还)?有(?:什么|其他|别的|任何).*(?:告诉我|随时|吗|么)",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE = re.compile(r"""[^.!?。！？]*+[.!?。！？]++[)"'”’*_]*+|[^.!?。！？]++\Z""")
# In a title, a list item, a quote or a table cell a statement is only mentioned.
_ASIDE = re.compile(r"\s*+(?:#|>|[-+*•]\s|\d{1,9}[.)]\s|\||\[)")
_FENCE = re.compile(r"\s*+(```|~~~)")
_QUOTES = tuple(map(re.compile, ('"', "`", "[“”]", "[「」『』]")))
_AROUND = "*_ \t\r✅✔☑🎉✨🚀\ufe0f"
# Only the end of the answer is read, and a statement is not longer than this.
LOOKED_AT = 64 * 1024
LONGEST = 120


def states_completion(text: str) -> bool:
    """Whether the text states that all tasks are done, and nothing in it casts doubt on that."""
    stated = after_colon = False
    for is_aside, paragraph in _paragraphs(text[-LOOKED_AT:]):
        quotes = 0
        for sentence in _SENTENCE.findall(paragraph):
            quotes ^= _open_quotes(sentence)
            if not (is_aside or after_colon or quotes) and _is_statement(sentence):
                stated = True
            elif _names_work(sentence):
                return False
            after_colon = sentence.rstrip(_AROUND).endswith((":", "："))
    return stated


def _open_quotes(sentence: str) -> int:
    """Return which kinds of quotes are unbalanced in a sentence, one bit for each kind."""
    odd = (len(quote.findall(sentence)) % 2 for quote in _QUOTES)
    return sum(count << bit for bit, count in enumerate(odd))


def _is_statement(sentence: str) -> bool:
    if "?" in sentence or "？" in sentence or len(sentence) > LONGEST:
        return False
    statement = sentence.strip(_AROUND).rstrip(_AROUND + ".!。！")
    return bool(_STATEMENTS.fullmatch(statement) or _CHINESE_STATEMENTS.fullmatch(statement))


def _names_work(sentence: str) -> bool:
    return bool(_MORE_WORK.search(sentence)) and not _OFFER.match(sentence.strip(_AROUND))


def _paragraphs(text: str) -> list[tuple[bool, str]]:
    """Return the paragraphs outside fenced code, each with whether it is an aside."""
    found: list[tuple[bool, list[str]]] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            found.append((False, []))
        elif not fence and (not line.strip() or _ASIDE.match(line)):
            found.append((bool(line.strip()), [line]))
        elif not fence:
            # A sentence may run over several lines, and be denied in the first of them.
            found = found or [(False, [])]
            found[-1][1].append(line)
    return [(is_aside, " ".join(lines)) for is_aside, lines in found]
