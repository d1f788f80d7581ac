"""The console's files: read once at the start, and served from memory.

Every file has an address with the digest of all files in it, so that browsers may keep it for good.
Only the page itself is asked for anew each time; it names the addresses of the day.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request as WebRequest
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from gateway.api.admission import incoming_of
from gateway.api.route import ANYTHING, ApiRoute, Parameter, Reply, bind_all

PATH = "/console"
PAGE = "index.html"
# What stands in the page for the address of the files.
PLACEHOLDER = b"{{base}}"
DIGEST_LENGTH = 16
HTML = "text/html; charset=utf-8"
TYPES = {
    "html": HTML,
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
SAFETY = {
    "content-security-policy": "; ".join(POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FOREVER = "public, max-age=31536000, immutable"
GONE = "This file belongs to another version of the console; load the page again.\n"


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file, plain and compressed, as it is sent."""

    kind: str
    plain: bytes
    packed: bytes
    etag: str

    def answer(self, headers: Mapping[bytes, bytes], caching: str) -> Response:
        """Answer with the file, or say that the browser has it."""
        is_packed = accepts_gzip(headers.get(b"accept-encoding", b""))
        # Each form has a tag of its own: they are not the same bytes.
        etag = f'"{self.etag}-gzip"' if is_packed else f'"{self.etag}"'
        common = {**SAFETY, "cache-control": caching, "etag": etag, "vary": "accept-encoding"}
        known = headers.get(b"if-none-match", b"").decode("latin-1").split(",")
        if etag in (tag.strip().removeprefix("W/") for tag in known):
            return Response(None, 304, common)
        coding = {"content-encoding": "gzip"} if is_packed else {}
        body = self.packed if is_packed else self.plain
        return Response(body, 200, {**common, **coding, "content-type": self.kind})


def accepts_gzip(accepted: bytes) -> bool:
    """Whether a browser takes gzip, by its `accept-encoding`."""
    codings = dict(_read_codings(accepted))
    return codings.get("gzip", codings.get("*", False))


def _read_codings(accepted: bytes) -> Iterable[tuple[str, bool]]:
    for part in accepted.decode("latin-1").lower().split(","):
        name, _, weight = part.partition(";")
        # `q=0` means that it is not taken; any other weight, that it is.
        yield name.strip(), weight.replace(" ", "").rstrip("0").rstrip(".") not in ("q=", "q=0")


@dataclass(frozen=True, slots=True)
class ConsoleFiles:
    """All files of the console by their names, and the digest of all of them."""

    by_name: Mapping[str, ConsoleFile]
    digest: str


def make_files(contents: Mapping[str, bytes]) -> ConsoleFiles:
    """Return the files as they are sent, the page with the addresses of the others."""
    whole = hashlib.sha256()
    for name, content in sorted(contents.items()):
        whole.update(b"%d %s %d " % (len(name), name.encode(), len(content)) + content)
    digest = whole.hexdigest()[:DIGEST_LENGTH]
    page = contents[PAGE].replace(PLACEHOLDER, f"{PATH}/-/{digest}/".encode())
    sent = {**contents, PAGE: page}
    return ConsoleFiles({name: _make_file(name, one) for name, one in sent.items()}, digest)


def _make_file(name: str, content: bytes) -> ConsoleFile:
    kind, tag = TYPES[name.rpartition(".")[2]], hashlib.sha256(content).hexdigest()
    return ConsoleFile(kind, content, gzip.compress(content, mtime=0), tag[:DIGEST_LENGTH])


@cache
def load_files() -> ConsoleFiles:
    """Read the files that came with the gateway; they do not change while it runs."""
    return make_files(dict(_read(files("gateway.api") / "console", "")))


def _read(folder: Traversable, where: str) -> Iterable[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _read(item, f"{where}{item.name}/")
        elif item.name.rpartition(".")[2] in TYPES:
            yield f"{where}{item.name}", item.read_bytes()


@dataclass(frozen=True, slots=True)
class ConsoleFilesArea:
    """The routes of the console's page and files; what they show needs a key, they do not."""

    files: ConsoleFiles

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def lead_on(self, request: WebRequest) -> Response:
        """Lead to the console."""
        return RedirectResponse(f"{PATH}/", 307, SAFETY)

    async def show_page(self, request: WebRequest) -> Response:
        """Show the console, whichever of its pages is asked for."""
        if request.path_params.get("page", "").startswith("-/"):
            return _say_gone()
        headers = incoming_of(request.scope).headers
        return self.files.by_name[PAGE].answer(headers, "no-cache")

    async def show_file(self, request: WebRequest) -> Response:
        """Show a file that a page of the console uses."""
        found = self.files.by_name.get(request.path_params["name"])
        if found is None or request.path_params["digest"] != self.files.digest:
            return _say_gone()
        return found.answer(incoming_of(request.scope).headers, FOREVER)


def _say_gone() -> Response:
    return PlainTextResponse(GONE, 404, {**SAFETY, "cache-control": "no-store"})


FILE_SENT = Reply("The file.", types=tuple(TYPES.values()))
FILE_GONE = Reply("There is no such file in this version.", text=True, status=404)
PAGE_SENT = Reply("The page.", types=(HTML,))
ROUTES = (
    ApiRoute(
        "get",
        PATH,
        "consoleStart",
        ConsoleFilesArea.lead_on,
        access="open",
        replies=(Reply("The console is at the address of `location`.", status=307),),
    ),
    ApiRoute(
        "get",
        f"{PATH}/-/{{digest}}/{{name:{ANYTHING}}}",
        "consoleFile",
        ConsoleFilesArea.show_file,
        parameters=(
            Parameter("digest", str, "The digest of all files, as the page has it.", "path"),
            Parameter("name", str, "The name of the file.", "path"),
        ),
        access="open",
        replies=(FILE_SENT, FILE_GONE),
    ),
    ApiRoute(
        "get",
        f"{PATH}/",
        "console",
        ConsoleFilesArea.show_page,
        access="open",
        replies=(PAGE_SENT,),
    ),
    ApiRoute(
        "get",
        f"{PATH}/{{page:{ANYTHING}}}",
        "consolePage",
        ConsoleFilesArea.show_page,
        parameters=(Parameter("page", str, "The page of the console.", "path"),),
        access="open",
        replies=(PAGE_SENT, FILE_GONE),
    ),
)
