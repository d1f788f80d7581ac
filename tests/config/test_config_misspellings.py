"""Any slip of the finger in any name is noticed, and answered with a name that exists."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import settings as trials
from hypothesis import strategies as st

from gateway.config import Config, ConfigError, load
from gateway.config.schema import camel, keys_of, settings, variable_of

LETTERS = string.ascii_lowercase + "_"


def tables(
    section: type = Config, where: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type]]:
    for name, key in keys_of(section).items():
        if below := key.section or key.row:
            yield (*where, name), below
            yield from tables(below, (*where, name))


PLACES = [(path, section, name) for path, section in tables() for name in keys_of(section)]


@st.composite
def slips(draw: st.DrawFn, word: str) -> str:
    """Draw a word that is one insertion, deletion, substitution or swap away."""
    at = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(LETTERS))
    before, after = word[:at], word[at + 1 :]
    swapped = before + after[:1] + word[at] + after[1:]
    return draw(
        st.sampled_from(
            [before + letter + word[at:], before + after, before + letter + after, swapped]
        )
    )


def written(path: tuple[str, ...], key: str) -> tuple[str, str]:
    """Return how a table is named in a problem, and a file in which it holds one key."""
    rows = keys_of(Config)[path[0]].row
    title = ".".join(path)
    header = f"[[{title}]]" if rows else f"[{title}]"
    return f"{title}[0]" if rows else title, f'{header}\n"{key}" = 1\n'


@trials(deadline=None)
@given(st.data())
def test_a_slip_in_a_key_is_answered_with_a_key(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path, section, name = data.draw(st.sampled_from(PLACES))
    slip = data.draw(slips(name))
    keys = keys_of(section)
    assume(slip and slip not in {*keys, *map(camel, keys)})
    where, text = written(path, slip)
    lines = problems_of(tmp_path_factory.getbasetemp() / "slips.toml", text)
    (line,) = [line for line in lines if line.startswith(f"{where}.{slip}: unknown key; ")]
    advice = line.partition("; ")[2]
    suggested = advice.removeprefix(f"did you mean {where}.").removesuffix("?")
    assert suggested in keys or advice == f"valid are {', '.join(keys)}"
    if len(name) > 4:
        assert suggested in keys


def problems_of(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, {"HOME": "/"})
    return str(caught.value).splitlines()


@pytest.mark.parametrize("path, section, name", PLACES)
def test_a_doubled_letter_is_answered_with_the_very_key(
    tmp_path: Path, path: tuple[str, ...], section: type, name: str
) -> None:
    slip = name[0] + name
    where, text = written(path, slip)
    expected = f"{where}.{slip}: unknown key; did you mean {where}.{name}?"
    assert expected in problems_of(tmp_path / "x.toml", text)


@trials(deadline=None)
@given(st.data())
def test_a_slip_in_a_variable_is_answered_with_a_variable(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    variables = {variable_of(path) for path, key in settings().items() if not key.row}
    name = data.draw(st.sampled_from(sorted(variables)))
    section, _, key = name.partition("__")
    slip = f"{section}__{data.draw(slips(key.lower())).upper()}"
    assume(slip not in variables)
    with pytest.raises(ConfigError) as caught:
        load(None, {"HOME": "/", slip: "1"}, cwd=tmp_path_factory.getbasetemp())
    (problem,) = caught.value.problems
    assert problem.where == slip
    assert problem.message.removeprefix("unknown variable; did you mean ")[:-1] in variables
