"""How deep a body is nested, and which model it names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS, Dialect
from gateway.dialects.raw_json import PASSES, is_too_deep
from gateway.errors import BadRequest

TEXTS = st.text('[]{}"\\,a', max_size=4)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=40,
)


def depth_of(value: Any) -> int:
    """Count the levels of a value."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(VALUES, st.integers(0, 12))
def test_the_depth_is_that_of_the_value(value: Any, limit: int) -> None:
    assert is_too_deep(msgspec.json.encode(value), limit) is (depth_of(value) > limit)


@pytest.mark.parametrize("begin, end", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("levels", [1, 2 * PASSES - 1, 2 * PASSES, 4 * PASSES])
def test_any_depth_is_told_from_the_next(begin: str, end: str, levels: int) -> None:
    body = f'{begin * levels}"]"{end * levels}'.encode()
    depth = levels * len(end)
    assert not is_too_deep(body, depth)
    assert is_too_deep(body, depth - 1)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("named", [{}, {"model": None}])
def test_who_names_no_model_asks_the_default_or_is_refused(
    dialect: Dialect, named: dict[str, Any]
) -> None:
    body = msgspec.json.encode({**named, "messages": [], "input": "hi", "x": 1.0})
    asked = dialect.read(body, 128, default_model="m")
    assert asked.model == "m"
    assert msgspec.json.decode(asked.body) == {**msgspec.json.decode(body), "model": "m"}
    with pytest.raises(BadRequest) as refused:
        dialect.read(body, 128)
    assert refused.value.param == "model"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_an_empty_name_is_no_models(dialect: Dialect) -> None:
    body = msgspec.json.encode({"model": "", "messages": [], "input": "hi"})
    with pytest.raises(BadRequest) as refused:
        dialect.read(body, 128, default_model="m")
    assert refused.value.param == "model"
