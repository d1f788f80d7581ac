"""Tell function names that are participles, such as `told` and `_rows_kept`, from verbs.

A function is called by what it does: verb and object. Its name is a participle if the last word or
the first is a past participle (`told`, `rows_kept`, `shown_job`), unless the first word is a verb
(`refuse_damaged`), asks a question (`is_held`) or is a preposition of a conversion (`as_quoted`).
Properties are values and may be called by what they are; `shape.py` leaves them out.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Past participles that are not the verb itself: `read`, `put`, `set`, `cut`, `split`, `run`,
# `come`, `let`, `hit`, `shut` are left out, since they may be verbs where they stand.
IRREGULAR = _words(
    """
    awaken awoken beaten become been begun bent bitten blown born borne bought bound broken
    brought built burnt caught chosen clung crept dealt done drawn dreamt driven drunk dug eaten
    fallen fed fought found forgotten forbidden frozen given gone ground grown heard held hidden
    hung kept known laid led left lent lit lost made meant met mistaken overtaken paid proven
    ridden risen rung said sat seen sent sewn shaken shaved shone shot shown slept slid sold
    sought sown spelt spent spoken spun stolen stood struck stuck sung sunk sworn swum swung
    taken taught thought thrown told torn understood undone unknown unmade unsaid unseen
    withheld withdrawn won worn wound woken written rewritten redone rebuilt resent
    """
)
# Words that end in -ed and are no participles.
OTHER_ED = _words(
    """
    bed bleed breed embed exceed feed heed indeed need proceed red reed seed shed shred sled
    speed succeed ted unread weed
    """
)
FINE_BEGINNINGS = _words(
    """
    is has was are were can could may might must should will would had does did as to from if
    when not on until while why accept announce derive explain hide ignore kill mention redact
    refuse rename resend schedule select warn withdraw add adopt allow answer append apply ask
    assert await begin bind build bring call cancel change check choose claim clear close
    collect commit compare compute convert copy count create cut decide decode define delete
    deliver describe disable discard do draw drop emit enable encode end ensure enter expect
    extract fetch fill filter find finish fire flush follow forget format free get give guard
    handle hold insert join keep know lead learn leave let limit list listen load lock log look
    make map mark match measure meet merge move name need note notify number observe offer open
    order owe pack parse pass pay pick place play post prepare print publish put queue quote
    raise read rebuild receive record reject release remember remove render repair replace reply
    report reserve reset resolve restore resume retry return run save say see send serve set
    settle show sign skip sort split start stop store strip subscribe swap take tell test time
    touch trace track translate trim try turn update use validate wait wake walk want watch
    write yield
    """
)
# Names that are participles for a reason.
ALLOWED = {
    "connection_made": "asyncio calls it so",
    "connection_lost": "asyncio calls it so",
    "data_received": "asyncio calls it so",
    "eof_received": "asyncio calls it so",
}


def is_participle(name: str) -> bool:
    """Tell whether a function is called by a participle instead of a verb."""
    if name in ALLOWED or (name.startswith("__") and name.endswith("__")):
        return False
    words = [word for word in name.lower().split("_") if word]
    if not words or words[0] in FINE_BEGINNINGS:
        return False
    return any(_is_past_participle(word) for word in (words[0], words[-1]))


def _is_past_participle(word: str) -> bool:
    if word in IRREGULAR:
        return True
    return len(word) > 3 and word.endswith("ed") and word not in OTHER_ED
