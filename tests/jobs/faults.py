"""Stores that fail when a test wants them to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.stores.documents import StoreUnavailable


class Flaky:
    """A store that stands before another, of which some calls fail while it is told so.

    With `late` they do what they should, and fail then: nobody knows that they did it.
    """

    def __init__(
        self,
        rows: Any,
        *names: str,
        error: type[Exception] = StoreUnavailable,
        late: bool = False,
    ) -> None:
        self._rows = rows
        self._names = names
        self._error = error
        self._late = late
        self.failures = 0

    def mend(self) -> None:
        """Let all calls pass from now on."""
        self._names = ()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._rows, name)
        return partial(self._fails, real) if name in self._names else real

    async def _fails(self, real: Callable[..., Any], *given: Any) -> None:
        if self._late:
            await real(*given)
        self.failures += 1
        raise self._error("The disk is full.")
