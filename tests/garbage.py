"""What only the collector of cycles could find."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def garbage_kept() -> Iterator[Callable[[], Counter[str]]]:
    """Let garbage lie; what is given counts, by type, what of the gateway's own lies there."""

    def found() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = map(type, gc.garbage)
        return Counter(kind.__name__ for kind in kinds if kind.__module__.startswith("gateway."))

    gc.collect()
    # What other tests of this process left behind is theirs, whenever it comes free.
    gc.freeze()
    gc.disable()
    try:
        yield found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
