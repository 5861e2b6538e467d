"""The server of the timeline: local, read-only, and accessible only with the token in the address.

It listens on 127.0.0.1. A foreign web page that guesses the port gets nothing: its requests lack the token, and
browsers add its origin to them. Requests under a foreign name that resolves to 127.0.0.1 are refused by their header
`Host`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from select import select
from socket import socket
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tracecols.errors import StoreError, TracecolsError
from tracecols.report.viewer.page import policy
from tracecols.timeline.answers import Answer, QuestionError, Timeline, until
from tracecols.timeline.compared import Comparison, Run
from tracecols.timeline.folded import ORDERS, Folded
from tracecols.timeline.page import COMPARE, POLICY, documents
from tracecols.timeline.trees import Selection
from tracecols.work.progress import Progress

ADDRESS = "127.0.0.1"

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Accepted names of this machine. Ports are not compared, as a forwarded port is a different one."""

LONGEST_QUERY = 1 << 15
"""Names of regions, such as those of templates in C++, take thousands of characters, and are encoded twice."""

SECOND = "b/"
"""Prefix of the paths of the second of two runs."""

MOST_TABS = 256
"""Pages whose latest question is remembered."""

QUESTIONS = ("data/about", "data/instances", "data/cause", "data/counters", "data/view")
"""Questions about one run, by the path that follows the token."""

QUESTIONS_OF_BOTH = ("data/alignment", "data/difference")
"""Questions about two runs."""

BETWEEN = 0.1
"""Minimum time between two lines about the progress of an analysis, in seconds."""


class Superseded(Exception):
    """The page has asked a newer question in the meantime."""


class Latest:
    """The number of the latest question of each page."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._lock = Lock()

    def asked(self, page: str, number: int) -> None:
        """Record the number of a question."""
        with self._lock:
            number = max(number, self._of.pop(page, number))
            self._of[page] = number
            while len(self._of) > MOST_TABS:
                del self._of[next(iter(self._of))]

    def check(self, page: str, number: int) -> None:
        """Check that a question is the latest one of its page. Raises Superseded if it is not."""
        if self._of.get(page, number) > number:
            raise Superseded


class Cancelled(Exception):
    """The page no longer waits for the answer."""


class _Lines:
    """Writes the progress of an analysis to a page that may have closed the connection."""

    def __init__(self, file: BufferedIOBase, connection: socket) -> None:
        self._file, self._connection, self._lock = file, connection, Lock()
        self._last, self._looked, self._stage = 0.0, 0.0, ""

    def report(self, stage: str, done: int, total: int) -> None:
        """Write a line, unless the last one was written just now. Raises Cancelled if the connection is closed."""
        with self._lock:
            now = monotonic()
            if stage == self._stage and now - self._last < BETWEEN:
                return
            self._last, self._stage = now, stage
            self.write({"stage": stage, "share": min(done / max(total, 1), 1.0)})

    def check(self) -> None:
        """Check that the page still waits, even if there is nothing to write. Raises Cancelled if the connection is
        closed."""
        with self._lock:
            now = monotonic()
            if now - self._looked < BETWEEN:
                return
            self._looked = now
        # a page sends nothing more: if the socket is readable, it is closed
        if select([self._connection], [], [], 0)[0]:
            raise Cancelled

    def write(self, said: Mapping[str, Any]) -> None:
        """Write a line of JSON."""
        try:
            self._file.write(json.dumps(said).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise Cancelled from error


@dataclass
class Rest:
    """Progress of the analysis that completes the first picture."""

    stage: str = ""
    """Its current stage, such as `scanning`; empty before the first one."""
    share: float = 0.0
    """Completed share of this stage."""
    error: str = ""
    """Reason why it failed; empty if it did not."""

    @contextmanager
    def watch(self, stage: str) -> Iterator[Progress]:
        """Record a stage of the analysis and its progress."""
        self.stage, self.share = stage, 0.0

        def report(done: int, total: int) -> None:
            self.share = done / max(total, 1)

        yield report

    def failed(self, reason: str) -> None:
        """Record why the analysis failed."""
        self.error = reason


class ViewServer(ThreadingHTTPServer):
    """Serves the timeline of one trace, or of two, on a port (0: any free one), with `jobs` answers at a time.

    `second` is a run to compare with the first one. It is served like that one, below `SECOND`, and the page `compare`
    shows both. `url` is the address of the page, with its `token`; `run` may be replaced at any time, and `rest` is the
    progress of the analysis while it is the first picture. Raises StoreError if the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, run: Run, port: int = 0, jobs: int = 2, second: Run | None = None) -> None:
        self.run, self.second = run, second
        self.comparison = Comparison(run, second) if second else None
        self.token, self.latest, self.rest = secrets.token_urlsafe(24), Latest(), Rest()
        self.working = BoundedSemaphore(jobs)
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise StoreError(
                f"cannot listen on port {port}: {error.strerror or error}\n"
                "  choose another one with --port, or leave it out"
            ) from error
        self.url = f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def show(self, run: Run) -> None:
        """Serve another state of the run from now on."""
        self.run = run

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections that a browser has closed."""

    def server_bind(self) -> None:
        """Bind without looking up the name of the machine, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tracecols", ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer a question, or send a file of the page."""
        refusal = self._refusal()
        if refusal is not None:
            self._send(refusal, "text/plain; charset=utf-8", refusal.phrase.encode())
            return
        target = urlsplit(self.path)
        name = target.path.split("/", 2)[2]
        run = self.server.run
        if self.server.second and name.startswith(SECOND):
            run, name = self.server.second, name.removeprefix(SECOND)
        is_shown = name != COMPARE or (self.server.comparison is not None and run is self.server.run)
        if name in documents() and is_shown:
            self._send(HTTPStatus.OK, *documents()[name])
            return
        given = dict(parse_qsl(target.query, keep_blank_values=True))
        if name == "trees":
            self._send_trees(run, given)
            return
        if name == "data/trees":
            self._analyse(run, given)
            return
        try:
            answer = self._answer(run, name, given)
        except Superseded:
            self._send(HTTPStatus.CONFLICT, "text/plain; charset=utf-8", b"superseded")
        except (QuestionError, ValueError) as error:
            self._send_error(HTTPStatus.BAD_REQUEST, str(error))
        except TracecolsError as error:
            self._send_error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        else:
            if answer is None:
                self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"Not Found")
            else:
                self._send(HTTPStatus.OK, "application/octet-stream", answer.encoded())

    def _send_trees(self, run: Run, given: Mapping[str, str]) -> None:
        """Send the report of a time range, or the page that waits for it. Errors are sent as text, since the browser
        shows them as a page."""
        try:
            selection = _selection(run.timeline, given)
            run.trees.check(selection)
            if not run.trees.is_ready(selection):
                self._send(HTTPStatus.OK, *documents()[""])
                return
            found = run.trees.page(selection)
        except TracecolsError as error:
            text = f"The trees of this range cannot be shown: {error}"
        except ValueError as error:
            text = f"The address makes no sense: {error}"
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", found, f"{policy()}; frame-ancestors 'none'")
            return
        self._send(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", text.encode())

    def _analyse(self, run: Run, given: Mapping[str, str]) -> None:
        """Analyse a time range and send its progress as lines of JSON, the last one when it is done. The analysis is
        cancelled if the page closes the connection."""
        try:
            selection = _selection(run.timeline, given)
            run.trees.check(selection)
        except (QuestionError, ValueError) as error:
            self._send_error(HTTPStatus.BAD_REQUEST, str(error))
            return
        self.close_connection = True
        self._send_head(HTTPStatus.OK, "application/x-ndjson", POLICY, ("Connection", "close"))
        lines = _Lines(self.wfile, self.connection)
        try:
            run.trees.analyse(selection, lines.report, lines.check)
        except Cancelled:
            return
        except TracecolsError as error:
            with suppress(Cancelled):
                lines.write({"error": str(error)})
        else:
            with suppress(Cancelled):
                lines.write({"ready": True})

    def _refusal(self) -> HTTPStatus | None:
        """Return the status with which a request is refused, or None if it is accepted."""
        host = self.headers.get("Host", "")
        if host.rpartition(":")[0] not in HOSTS and host not in HOSTS:
            return HTTPStatus.MISDIRECTED_REQUEST
        if self.headers.get("Origin", f"http://{host}") != f"http://{host}":
            return HTTPStatus.FORBIDDEN
        site, mode = self.headers.get("Sec-Fetch-Site", "none"), self.headers.get("Sec-Fetch-Mode", "navigate")
        if site not in ("none", "same-origin") and mode != "navigate":
            return HTTPStatus.FORBIDDEN
        if len(self.path) > LONGEST_QUERY:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        try:
            parts = urlsplit(self.path).path.split("/", 2)
        except ValueError:
            # the host in it is none, such as [
            return HTTPStatus.BAD_REQUEST
        if len(parts) != 3 or not hmac.compare_digest(parts[1].encode(), self.server.token.encode()):
            return HTTPStatus.FORBIDDEN
        return None

    def _answer(self, run: Run, name: str, given: Mapping[str, str]) -> Answer | None:
        """Answer a question. Return None if there is no question of this name."""
        if self.server.comparison and run is self.server.run and name in QUESTIONS_OF_BOTH:
            return _ask_both(name, self.server.comparison, given)
        if name == "data/rest":
            return Answer({"is_first": run.timeline.prepared.is_first, **asdict(self.server.rest)})
        if name not in QUESTIONS:
            return None
        # `number` is that of the question itself for views only
        page, number = given.get("page", "")[:40] if name == "data/view" else "", int(given.get("number", 0))
        latest = self.server.latest
        if page:
            latest.asked(page, number)
        # outside of `working`: finding instances of a phase takes a scan, during which other questions are answered
        shown = _shown(run, given)
        with self.server.working:

            def go_on() -> None:
                if page:
                    latest.check(page, number)

            go_on()
            return _ask(name, shown, given, go_on)

    def _send_error(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "application/json", json.dumps({"error": text}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes, rules: str = POLICY) -> None:
        self._send_head(status, kind, rules, ("Content-Length", str(len(content))))
        self.wfile.write(content)

    def _send_head(self, status: HTTPStatus, kind: str, rules: str, about: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            about,
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", rules),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses hold the token."""


def _selection(timeline: Timeline, given: Mapping[str, str]) -> Selection:
    """Return the selection in the query of an address of the trees."""
    start, stop, row, path = (
        int(given.get(name, other)) for name, other in (("from", 0), ("to", 0), ("row", 0), ("path", -1))
    )
    found = tuple(int(i) for i in given.get("slice", "").split(",") if i)
    if len(found) not in (0, 3):
        raise ValueError("slice takes a location, a time and a depth")
    at = (found[0], found[1], found[2]) if found else None
    stop = until(stop, timeline.last - timeline.first + 1)
    return Selection(start, stop, row, given.get("property", ""), path, at, given.get("timeline", ""))


def _shown(run: Run, given: Mapping[str, str]) -> Timeline | Folded:
    """Return the subject of a question: the run, or the instances of a phase."""
    if "phase" not in given:
        return run.timeline
    return run.folds.of(given["phase"], given.get("order", ORDERS[0]), int(given.get("within", 0)))


def _numbers(given: Mapping[str, str], *names: str, default: int = 0) -> list[int]:
    return [int(given.get(name, default)) for name in names]


def _rows(given: Mapping[str, str]) -> list[int]:
    return [int(i) for i in given.get("rows", "").split(",") if i]


def _ask(name: str, shown: Timeline | Folded, given: Mapping[str, str], go_on: Callable[[], None]) -> Answer:
    """Answer one of `QUESTIONS`; `go_on` is called now and then, and may raise an error."""
    if name == "data/about":
        return shown.about()
    if name == "data/view":
        start, stop, columns = _numbers(given, "from", "to", "columns")
        return shown.view(start, stop, _rows(given), columns, given.get("severity", ""), go_on)
    if isinstance(shown, Folded):
        raise QuestionError("this is known of the run only, not of instances of a phase")
    if name == "data/instances":
        return shown.instances(*_numbers(given, "number", default=-1))
    if name == "data/cause":
        return shown.cause(*_numbers(given, "location", "begin", "end", default=-1))
    start, stop, columns = _numbers(given, "from", "to", "columns")
    return shown.counters_of(start, stop, _rows(given), columns)


def _ask_both(name: str, comparison: Comparison, given: Mapping[str, str]) -> Answer:
    """Answer one of `QUESTIONS_OF_BOTH`."""
    if name == "data/alignment":
        return comparison.about(given.get("by", "focus"), given.get("of", ""), int(given.get("k", 0)))
    start, stop, columns, first, second = _numbers(given, "from", "to", "columns", "first", "second")
    return comparison.difference(start, stop, _rows(given), columns, given.get("part", ""), (first, second))
