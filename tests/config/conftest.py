"""A configuration written down, loaded in a directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, load

Loader = Callable[..., Config]
Faults = Callable[..., list[str]]

HOME = "/home/someone"


@pytest.fixture
def loaded(tmp_path: Path) -> Loader:
    """Return a function that loads a text as `holdgate.toml`."""

    def load_text(
        text: str = "",
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, object] | None = None,
    ) -> Config:
        (tmp_path / "holdgate.toml").write_text(text)
        return load(None, {"HOME": HOME} | dict(environ or {}), overrides or {}, cwd=tmp_path)

    return load_text


@pytest.fixture
def faults(loaded: Loader) -> Faults:
    """Return a function that loads a text and says what is wrong with it, one line a problem."""

    def lines(text: str = "", environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            loaded(text, environ)
        assert str(caught.value).splitlines() == [str(p) for p in caught.value.problems]
        return str(caught.value).splitlines()

    return lines
