"""The pictures of the console: those that docs name are those that `scripts/console` takes."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

from tests.console.palette_png import write_png
from tests.console.pictures import FOLDER, PICTURES, list_files

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("README*.md"), *ROOT.joinpath("docs").rglob("*.md")]
NAMED = re.compile(r"pictures/console/([\w.-]+)")
MOST_BYTES = 4_200_000
"""Those of phones show whole pages, as far down as 2,200 px."""


def test_every_picture_is_taken_by_the_script_and_named_in_docs() -> None:
    named = {name for page in PAGES for name in NAMED.findall(page.read_text())}
    there = {file.name for file in FOLDER.iterdir()}
    assert sorted(named) == sorted(there) == sorted(list_files())


def test_the_page_of_the_console_shows_each_place_in_both_themes_and_widths() -> None:
    text = ROOT.joinpath("docs/console.md").read_text()
    for picture in PICTURES:
        assert [file for file in picture.list_files() if file not in text] == []


def test_pictures_are_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < MOST_BYTES


def test_the_script_takes_them() -> None:
    script = ROOT.joinpath("scripts/console")
    assert script.stat().st_mode & 0o100
    assert "-m tests.console.pictures" in script.read_text()


def test_a_rare_colour_is_not_lost() -> None:
    """A thousand greys must not make the one red pixel grey."""
    greys = [(level % 256, level % 251, level % 241) for level in range(999)]
    pixels = b"".join(bytes((*grey, 255)) for grey in [*greys, (220, 20, 20)])
    png = write_png(1000, 1, pixels)
    palette, indexes = find_chunk(png, b"PLTE"), zlib.decompress(find_chunk(png, b"IDAT"))
    last = indexes[-1]
    assert tuple(palette[3 * last : 3 * last + 3]) == (220, 20, 20)
    assert len(palette) <= 3 * 256


def find_chunk(png: bytes, kind: bytes) -> bytes:
    """Return the data of a chunk of a PNG."""
    at = png.index(kind)
    (length,) = struct.unpack(">I", png[at - 4 : at])
    return png[at + 4 : at + 4 + length]
