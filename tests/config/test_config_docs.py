"""docs/configuration.md says what the code does."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gateway.config.reference
from gateway.config import Config, ConfigError
from gateway.config.reference import reference
from gateway.config.schema import keys_of, settings, variable_of
from gateway.config.sources import ALIASES

Loader = Callable[..., Config]

DOCS = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
HEADING = re.compile(r"^### `\[+([a-z_.]+)\]+`$", re.MULTILINE)
ROW = re.compile(r"^\| `([a-z0-9_]+)` \| (?:`(.*?)`|required|unset) \|", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)


def section_at(path: str) -> type:
    section: type = Config
    for name in path.split("."):
        key = keys_of(section)[name]
        section = key.section or key.row or section
    return section


def test_the_tables_are_those_of_the_code() -> None:
    assert DOCS.endswith(reference()), "run python -m gateway.config.reference"


def test_the_command_prints_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(gateway.config.reference.__file__, run_name="__main__")
    assert capsys.readouterr().out == reference()


def test_every_section_documents_its_keys_and_no_others() -> None:
    _, *parts = HEADING.split(reference())
    tables = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(tables) == {*keys_of(Config), "clock.ntp"}
    for path, table in tables.items():
        keys = [name for name, key in keys_of(section_at(path)).items() if not key.section]
        assert [row[0] for row in ROW.findall(table)] == keys


def test_the_example_loads_and_uses_every_section(loaded: Loader) -> None:
    *_, example = blocks("toml")
    environ = {"GLM_API_KEY": "a", "ALICE_KEY": "b", "ALICE_HOOK_SECRET": "c"}
    config = loaded(example, environ)
    assert [model.name for model in config.models] == ["default", "plain"]
    unused = {
        name
        for name in keys_of(Config)
        if name not in {path.split(".")[0] for path in config.origins}
    }
    assert unused == set()


def test_the_problems_shown_are_real(loaded: Loader) -> None:
    text = """
    [clock]
    hold_max_sm = 1
    [[upstreams]]
    id = "glm"
    base_url = "https://glm.example/v1"
    dialect = "openai-cht"
    [[models]]
    name = "default"
    routes = ["gml/glm-4.7"]
    """
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    assert f"{caught.value}\n" in blocks("text")


def test_every_dotted_name_in_the_text_exists() -> None:
    sections = "|".join(keys_of(Config))
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.]+)`", DOCS))
    assert named
    assert named <= {*settings(), "clock.ntp"}


def test_every_variable_in_the_text_exists_and_every_alias_is_there() -> None:
    aliases = {name for name, _ in ALIASES}
    named = set(re.findall(r"(?:HOLDGATE|ROUTECODEX)_[A-Z_]*[A-Z]", DOCS))
    assert aliases <= named
    assert named - aliases <= {variable_of(path) for path in settings()}


def test_a_sentence_about_each_key_fits_a_table() -> None:
    keys = [
        key
        for name in (*keys_of(Config), "clock.ntp")
        for key in keys_of(section_at(name)).values()
    ]
    sentences = [key.doc for key in keys if not key.section]
    assert [doc for doc in sentences if not re.fullmatch(r"[A-Z`][^|\n]*\.", doc)] == []


def test_the_configuration_imports_nothing_of_the_gateway_but_itself() -> None:
    for file in Path(gateway.config.__file__).parent.glob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        modules |= {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        foreign = {name for name in modules if name.split(".")[0] not in sys.stdlib_module_names}
        assert {name for name in foreign if not name.startswith("gateway.config.")} <= {"msgspec"}
