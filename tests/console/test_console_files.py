"""The console's files: how they are served, and what they may contain."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.api.console_files import POLICY, TYPES, accepts_gzip, load_files, make_files
from gateway.console.metrics_history import LIVE_STATES
from gateway.console.trail_view import LIVE
from gateway.exchange.machine_json import write_machine
from tests.console.browser import Browser
from tests.gateway.wire import get
from tests.jobs.words import keys
from tests.run import in_process

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "gateway" / "api" / "console"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())
TEXTS = [path for path in FILES if path.suffix in {".js", ".css", ".html", ".json", ".svg"}]
FORBIDDEN = ("innerHTML", "style=", "http:", "https:", "backdrop-filter")
# The name of a language, which no browser asks for.
SVG = "http://www.w3.org/2000/svg"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PAGES = ("/console/", "/console/jobs", "/console/jobs?state=failing&q=disk", "/console/a/b")
# Sentences in which a duration stands.
DURATIONS = (
    "chat.hidden_tool",
    "chat.stopped_closed",
    "exchange.closed_after",
    "exchange.first_byte_at",
    "exchange.first_frame_after",
    "exchange.held_for",
    "exchange.held_said",
    "exchange.said_bytes",
    "exchange.said_tokens",
    "exchange.tool_failed",
    "exchange.tool_ran",
    "job.late",
    "jobs.waits",
)
PAGE_MODULES = sorted(FOLDER.joinpath("pages").glob("*.js"))
STATIC_IMPORT = re.compile(r'^(?:import|export)\s(?:[^;=]*?\sfrom\s)?\s*"(\.[^"]+)"', re.MULTILINE)
# Those within functions are loaded later; those of `app.js` are the pages.
DYNAMIC_IMPORT = re.compile(r'import\("(\.[^"]+\.js)"\)')
STYLES = ("tokens", "base", "frame", "pages")
OWN_STYLES = re.compile(r"const STYLES = {(.+?)};")
OTHER_STYLES = re.compile(r"const OTHERS = (\[.+?\]);")
ACCEPTS = "accept-encoding: br;q=1, gzip"


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))


class TestServed:
    @pytest.mark.parametrize("path", PAGES)
    async def test_every_page_is_the_same_file_and_needs_no_key(self, path: str) -> None:
        async with in_process(None, tables={"keys": keys("ann")}) as gate:
            answer = await gate.fetch(get(path))
        assert (answer.status, answer.headers["content-type"]) == (200, TYPES["html"])
        assert answer.headers["cache-control"] == "no-cache"
        assert HEADERS.items() <= answer.headers.items()
        assert answer.repeated == []
        written = FOLDER.joinpath("index.html").read_bytes()
        base = f"/console/-/{load_files().digest}/".encode()
        assert answer.body == written.replace(b"{{base}}", base)

    async def test_all_that_the_page_names_is_there(self) -> None:
        async with in_process(None) as gate:
            page = bytes((await gate.fetch(get("/console/"))).body).decode()
            names = re.findall(r'(?:src|href)="([^"]+)"', page)
            assert names
            for name in names:
                assert name.startswith(f"/console/-/{load_files().digest}/"), name
                assert (await gate.fetch(get(name))).status == 200

    async def test_every_file_is_kept_for_good_under_its_digest(self) -> None:
        files = load_files()
        async with in_process(None) as gate:
            for path in TEXTS:
                where = f"/console/-/{files.digest}/{name_of(path)}"
                answer = await gate.fetch(get(where))
                assert answer.status == 200, where
                assert answer.headers["content-type"] == TYPES[path.suffix[1:]]
                assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
                assert HEADERS.items() <= answer.headers.items()
                if path.name != "index.html":
                    assert answer.body == path.read_bytes()
                packed = await gate.fetch(get(where, ACCEPTS))
                assert packed.headers["content-encoding"] == "gzip"
                assert packed.headers["vary"] == answer.headers["vary"] == "accept-encoding"
                assert gzip.decompress(packed.body) == answer.body

    async def test_a_browser_that_has_a_file_gets_no_second(self) -> None:
        async with in_process(None) as gate:
            browser = Browser(gate)
            for path in ("/console/", f"/console/-/{load_files().digest}/app.js"):
                tags = set()
                for headers in ((), (ACCEPTS,)):
                    tag = (await browser.get(path, *headers)).headers["etag"]
                    tags.add(tag)
                    for known in (tag, f'"x", W/{tag}'):
                        again = await browser.get(path, *headers, f"if-none-match: {known}")
                        assert (again.status, again.headers["etag"]) == (304, tag)
                        assert HEADERS.items() <= again.headers.items()
                    other = await browser.get(path, *headers, 'if-none-match: "x"')
                    assert other.status == 200
                # They are not the same bytes.
                assert len(tags) == 2

    @pytest.mark.parametrize(
        "path",
        [
            "-/0123456789abcdef/app.js",
            "-/{digest}/missing.js",
            "-/{digest}/",
            "-/{digest}",
            "-/",
            "-/{digest}/../admission.py",
            "-/{digest}/%2e%2e/admission.py",
            "-/{digest}//etc/passwd",
        ],
    )
    async def test_files_of_another_version_are_gone(self, path: str) -> None:
        async with in_process(None) as gate:
            answer = await gate.fetch(get(f"/console/{path.format(digest=load_files().digest)}"))
        assert (answer.status, answer.headers["cache-control"]) == (404, "no-store")
        assert answer.body == (
            b"This file belongs to another version of the console; load the page again.\n"
        )
        assert HEADERS.items() <= answer.headers.items()

    async def test_the_head_of_a_file_can_be_asked_for(self) -> None:
        async with in_process(None) as gate:
            for path in ("/console/", f"/console/-/{load_files().digest}/app.js"):
                whole = await gate.fetch(get(path))
                head = await Browser(gate).send("HEAD", path)
                assert (head.status, bytes(head.body)) == (200, b"")
                assert head.headers["content-length"] == str(len(whole.body))

    async def test_it_is_guarded_as_all_else(self) -> None:
        async with in_process(None) as gate:
            for path in ("/console/", f"/console/-/{load_files().digest}/app.js"):
                foreign = await gate.fetch(get(path, "origin: http://evil.example"))
                assert (foreign.status, foreign.error["code"]) == (403, "forbidden")
                browser = Browser(gate)
                assert (await browser.send("GET", path, host="evil.example")).status == 403
                assert (await browser.post(path)).status == 405

    async def test_browsers_are_led_to_it(self) -> None:
        html = "accept: text/html,application/xhtml+xml,*/*;q=0.8"
        async with in_process(None) as gate:
            for path, headers in (("/", (html,)), ("/console", ())):
                answer = await Browser(gate).get(path, *headers)
                assert (answer.status, answer.headers["location"]) == (307, "/console/")
            for headers in ((), ("accept: */*",), ("accept: text/plain",)):
                greeting = await Browser(gate).get("/", *headers)
                assert greeting.body.startswith(b"Holdgate ")


class TestTable:
    def test_any_change_of_any_file_changes_the_digest(self) -> None:
        page = b'<link href="{{base}}a.css">'
        before = make_files({"index.html": page, "a.css": b"a", "parts/b.js": b"b"})
        others = (
            {"index.html": page, "a.css": b"a", "parts/b.js": b"c"},
            {"index.html": page, "a.css": b"ab", "parts/b.js": b""},
            {"index.html": page, "a.css": b"a", "parts/c.js": b"b"},
            {"index.html": page, "a.css": b"a"},
        )
        digests = {make_files(other).digest for other in others}
        assert len(digests) == len(others)
        assert before.digest not in digests
        link = f'<link href="/console/-/{before.digest}/a.css">'
        assert before.by_name["index.html"].plain == link.encode()

    def test_all_files_are_in_it(self) -> None:
        assert set(load_files().by_name) == set(map(name_of, FILES))

    @pytest.mark.parametrize(
        ("accepted", "taken"),
        [
            (b"", False),
            (b"gzip", True),
            (b"GZIP;q=0.5", True),
            (b"br, gzip ; q=1", True),
            (b"*", True),
            (b"gzip;q=0", False),
            (b"gzip; q=0.000", False),
            (b"gzip;q=0, *", False),
            (b"*;q=0", False),
            (b"identity, br", False),
            (b"xgzip", False),
        ],
    )
    def test_who_takes_gzip(self, accepted: bytes, taken: bool) -> None:
        assert accepts_gzip(accepted) is taken


class TestContents:
    @pytest.mark.parametrize("path", TEXTS, ids=name_of)
    def test_no_file_has_what_the_policy_forbids(self, path: Path) -> None:
        text = path.read_text().replace(SVG, "")
        assert [word for word in FORBIDDEN if word in text] == []

    @pytest.mark.parametrize("path", [p for p in TEXTS if p.suffix == ".css"], ids=name_of)
    def test_every_rule_of_a_style_sheet_ends(self, path: Path) -> None:
        """A media query that was left open swallowed the style of half of the pages once."""
        text = path.read_text()
        assert text.count("{") == text.count("}")

    @pytest.mark.parametrize("language", ["en", "zh"])
    @pytest.mark.parametrize("page", PAGE_MODULES, ids=name_of)
    def test_a_page_is_small(self, page: Path, language: str) -> None:
        """What a browser loads for all that one page can do, in one language."""
        loaded = find_imports(FOLDER / "app.js") | find_imports(page, with_later=True)
        loaded |= {FOLDER / "index.html", FOLDER / f"words-{language}.json", *find_styles(page)}
        served = [load_files().by_name[name_of(path)] for path in loaded]
        assert sum(len(one.plain) for one in served) <= 240 * 1024
        assert sum(len(one.packed) for one in served) <= 64 * 1024

    def test_what_is_loaded_later_counts(self) -> None:
        """The page of jobs loads its editor when somebody opens it."""
        page = FOLDER / "pages" / "jobs.js"
        assert FOLDER / "parts" / "editor.js" in find_imports(page, with_later=True)
        assert FOLDER / "parts" / "editor.js" not in find_imports(page)

    def test_every_style_sheet_belongs_to_a_page(self) -> None:
        assert {one for page in PAGE_MODULES for one in find_styles(page)} == set(
            FOLDER.glob("*.css")
        )

    def test_only_what_every_page_needs_is_loaded_ahead(self) -> None:
        index = FOLDER.joinpath("index.html").read_text()
        ahead = {FOLDER / name for name in re.findall(r'"{{base}}([^"]+\.js)"', index)}
        assert ahead <= find_imports(FOLDER / "app.js")

    def test_the_machine_is_that_of_exchanges(self) -> None:
        remake = "python -m gateway.exchange.machine_json > gateway/api/console/machine.json"
        assert FOLDER.joinpath("machine.json").read_text() == write_machine(), remake

    def test_both_languages_say_the_same(self) -> None:
        pages = [path for path in FILES if path.name in ("words-en.json", "words-zh.json")]
        assert len(pages) in (0, 2)
        found = [find_placeholders(json.loads(path.read_text())) for path in pages]
        assert found[:1] == found[1:]

    @pytest.mark.parametrize("key", DURATIONS)
    def test_chinese_has_no_blank_after_a_duration(self, key: str) -> None:
        """It ends with a character of its own: "290 毫秒 写了" had a blank too many."""
        text = json.loads(FOLDER.joinpath("words-zh.json").read_text())[key]
        assert re.search(r"{(?:time|wait)} [\u4e00-\u9fff]", text) is None

    def test_each_outcome_of_a_hold_has_a_fill_of_its_own(self) -> None:
        text = FOLDER.joinpath("parts/plots.js").read_text()
        table = text.partition("const OUTCOMES = {")[2].partition("}")[0]
        fills = dict(re.findall(r'(\w+): "(\w+)"', table))
        words = json.loads(FOLDER.joinpath("words-en.json").read_text())
        assert {f"exchange.outcome_{name}" for name in fills} == {
            key for key in words if key.startswith("exchange.outcome_")
        }
        assert len(set(fills.values())) == len(fills)

    def test_all_live_states_are_plotted(self) -> None:
        text = FOLDER.joinpath("parts/plots.js").read_text()
        (states,) = re.findall(r"const STATES = (\[.*?\]);", text)
        assert set(json.loads(states)) == {state.value for state in LIVE} == set(LIVE_STATES)

    def test_the_policy_lets_nothing_in_from_elsewhere(self) -> None:
        assert {word for rule in POLICY for word in rule.split()[1:]} == {
            "'none'",
            "'self'",
            "'script'",
        }


def find_imports(
    path: Path, found: frozenset[Path] = frozenset(), *, with_later: bool = False
) -> frozenset[Path]:
    """Return a module and all that it imports, at once or also later."""
    found |= {path}
    text = path.read_text() if path.suffix == ".js" else ""
    for name in STATIC_IMPORT.findall(text) + (DYNAMIC_IMPORT.findall(text) if with_later else []):
        imported = path.parent.joinpath(name).resolve()
        if imported not in found:
            found = find_imports(imported, found, with_later=with_later)
    return found


def find_styles(page: Path) -> set[Path]:
    """Return the style sheets of a page: those of all, and that of its kind."""
    text = FOLDER.joinpath("app.js").read_text()
    (own,), (others,) = OWN_STYLES.findall(text), OTHER_STYLES.findall(text)
    named = dict(re.findall(r"(\w+): (\[.+?\])", own))
    names = json.loads(named.get(page.stem, others))
    return {FOLDER / f"{name}.css" for name in (*STYLES, *names)}


def find_placeholders(words: Any, where: str = "") -> dict[str, list[str]]:
    """Return the placeholders of each text, by the place where it stands."""
    if isinstance(words, str):
        return {where: sorted(set(re.findall(r"{\w+}", words)))}
    members = words.items() if isinstance(words, dict) else enumerate(words)
    found: dict[str, list[str]] = {}
    for name, below in members:
        found |= find_placeholders(below, f"{where}/{name}")
    return found
