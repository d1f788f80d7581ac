"""The recorder of a story."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.usage import meter
from tests.golden.record import Stage, recorded

Record = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(autouse=True)
def _stored_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have usage stored when the gateway leaves, and not before if a story takes long."""
    monkeypatch.setattr(meter, "FLUSH_SECONDS", 3600)


@pytest.fixture
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Record:
    """Run a gateway whose traces are compared with the record of this test's name."""
    area = request.path.stem.removeprefix("test_golden_")
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")

    def run(*stories: Any, **options: Any) -> AbstractAsyncContextManager[Stage]:
        return recorded(f"{area}_{name}", tmp_path, *stories, **options)

    return run
