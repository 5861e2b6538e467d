"""The server of the timeline: it answers requests of this machine with the token, and refuses all others."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest
from conftest import LONG
from support.served import served, timeline_of

import tracecols
from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.run import unwatched
from tracecols.cli.preparing import Preparing
from tracecols.errors import AnalysisError, StoreError
from tracecols.store import Store
from tracecols.timeline.answers import Timeline
from tracecols.timeline.compared import Run
from tracecols.timeline.prepare import prepare
from tracecols.timeline.server import Latest, Superseded, ViewServer
from tracecols.timeline.trees import Selection
from tracecols.work.memory import Budget


@pytest.fixture(scope="module")
def path(tmp_path_factory, data):
    return tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("t") / "h.trace")


@pytest.fixture(scope="module")
def server(path):
    with served(timeline_of(path)) as server:
        yield server


def ask(server, target, method="GET", **headers):
    """Send a request; return the status, the headers and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LONG)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_page__is_sent_to_who_knows_the_token(server):
    status, headers, body = ask(server, f"/{server.token}/")
    assert status == 200
    assert b'<div id="timeline">' in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert ask(server, f"/{server.token}/timeline.js")[0] == 200


def test_server__listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    assert len(server.token) >= 32


@pytest.mark.parametrize("token", ["", "x", "TOKEN", "..", "%2e%2e"])
@pytest.mark.parametrize("rest", ["/", "/timeline.js", "/data/about"])
def test_wrong_token__is_refused(server, token, rest):
    status, _, body = ask(server, f"/{token}{rest}")
    assert status == 403
    assert body == b"Forbidden"


def test_token__is_compared_as_a_whole(server):
    assert ask(server, f"/{server.token[:-1]}/")[0] == 403
    assert ask(server, f"/{server.token}x/")[0] == 403
    assert ask(server, "/")[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", "0.0.0.0"]
)
def test_foreign_host__is_refused(server, host):
    """A foreign host name may resolve to this machine."""
    assert ask(server, f"/{server.token}/", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1:8000", "[::1]:99", "localhost"])
def test_forwarded_port__is_taken(server, host):
    assert ask(server, f"/{server.token}/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "file://"]
)
def test_foreign_origin__is_refused(server, origin):
    assert ask(server, f"/{server.token}/data/about", Origin=origin)[0] == 403


def test_own_origin__is_taken(server):
    assert ask(server, f"/{server.token}/data/about", Origin=server.url.split(f"/{server.token}")[0])[0] == 200


def test_request_of_another_site__is_refused(server):
    target = f"/{server.token}/data/about"
    assert ask(server, target, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")[0] == 403
    assert ask(server, target, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert ask(server, target, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200
    # a link in a mail
    assert ask(server, f"/{server.token}/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200


@pytest.mark.parametrize(
    "name",
    [
        "../server.py",
        "..%2fserver.py",
        "data/../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "timeline.js/..",
        "page.py",
        "nonsense",
        "data/",
    ],
)
def test_names__of_other_files_lead_nowhere(server, name):
    assert ask(server, f"/{server.token}/{name}")[0] == 404


@pytest.mark.parametrize("target", ["http://[/", "http://[x]/data/about", "http://a]/"])
def test_address__with_a_host_that_is_none_is_refused(server, target):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LONG)
    connection.putrequest("GET", target, skip_host=True)
    connection.putheader("Host", "localhost")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_methods__that_are_not_get_are_not_known(server, method):
    assert ask(server, f"/{server.token}/", method)[0] == 501


def test_long_address__is_refused(server):
    assert ask(server, f"/{server.token}/data/view?rows=" + "1," * 20000)[0] == 414


@pytest.mark.parametrize(
    "question",
    ["view?from=x&to=5", "view?from=5&to=5&columns=10&rows=0", "view?from=0&to=99&rows=0&columns=1e9", "cause?location=-3", "instances?number=999"],
)  # fmt: skip
def test_questions__that_make_no_sense_are_refused_with_the_reason(server, question):
    status, headers, body = ask(server, f"/{server.token}/data/{question}")
    assert status == 400
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body)["error"]


def decode(body):
    """Read an answer as the page does."""
    n = int.from_bytes(body[:4], "little")
    head = json.loads(body[4 : 4 + n])
    arrays = {
        a["name"]: np.frombuffer(body, "<" + a["type"], int(np.prod(a["shape"])), 4 + n + a["at"]).reshape(a["shape"])
        for a in head["arrays"]
    }
    return head, arrays


def test_view__is_answered(server):
    _, _, body = ask(server, f"/{server.token}/data/about")
    about, _ = decode(body)
    rows = ",".join(map(str, range(len(about["rows"]))))
    status, _, body = ask(server, f"/{server.token}/data/view?from=0&to={about['length']}&columns=300&rows={rows}")
    head, arrays = decode(body)
    assert status == 200
    assert arrays["ticks"].shape[:2] == (len(about["classes"]), len(about["rows"]))
    assert head["n"]["slice"] == arrays["slice.begin"].size


def test_questions__at_the_same_time_are_all_answered(server):
    found = []

    def one(number):
        found.append(ask(server, f"/{server.token}/data/view?from=0&to=1000&columns=100&rows=0,{number % 3}")[0])

    threads = [Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 20


def test_superseded__questions_are_dropped(server):
    target = f"/{server.token}/data/view?from=0&to=1000&columns=100&rows=0&page=tab&number="
    assert ask(server, f"{target}7")[0] == 200
    assert ask(server, f"{target}6")[0] == 409
    assert ask(server, f"{target}8")[0] == 200
    assert ask(server, f"/{server.token}/data/view?from=0&to=1000&columns=100&rows=0&page=other&number=1")[0] == 200


def test_latest__forgets_old_pages():
    latest = Latest()
    latest.asked("a", 5)
    latest.asked("a", 3)
    latest.check("a", 5)
    with pytest.raises(Superseded):
        latest.check("a", 4)
    for i in range(1000):
        latest.asked(f"page {i}", 1)
    assert len(latest._of) == 256
    latest.check("a", 1)


def test_rest__says_how_far_it_is_until_another_run_is_served(path):
    store = Store(path)
    all_of_it = prepare(OpenedTrace(store))
    first = replace(all_of_it, content={**all_of_it.content, "is_first": True})
    with served(Timeline(store, first)) as server:

        def said():
            body = ask(server, f"/{server.token}/data/rest")[2]
            return json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])

        assert said() == {"is_first": True, "stage": "", "share": 0.0, "error": "", "arrays": []}
        with server.rest.watch("analyzing") as report:
            report(1, 4)
            assert (said()["stage"], said()["share"]) == ("analyzing", 0.25)
        with server.rest.watch("finding causes"):
            assert (said()["stage"], said()["share"]) == ("finding causes", 0.0)
        server.rest.failed("no room")
        assert said()["error"] == "no room"
        timeline = Timeline(store, all_of_it)
        server.show(Run.of(timeline))
        assert not said()["is_first"]


@pytest.mark.slow
def test_preparing__by_another_process_is_the_same(path, tmp_path):
    copy = tmp_path / "h.trace"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("enhanced"))
    stages = []

    def watch(what):
        stages.append(what)
        return nullcontext(lambda *_: None)

    with Preparing(Store(copy), 1, Budget()) as preparing:
        found = preparing.first(watch)
    assert found.folder == copy / "enhanced" / "timeline"
    assert found.content == prepare(OpenedTrace(Store(path))).content
    assert [stage for stage in stages if ":" not in stage] == [
        "scanning",
        "analyzing regions",
        "marking",
        "scanning",
        "analyzing",
    ]


@pytest.mark.slow
def test_preparing__says_why_it_cannot(path, archive, tmp_path):
    archive.location(0)
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    with (
        Preparing(store, 1, Budget()) as preparing,
        pytest.raises(AnalysisError, match="has no events\n  there is nothing to draw"),
    ):
        preparing.first(unwatched)
    copy = tmp_path / "h.trace"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("enhanced"))
    reasons, ended = [], Event()
    with Preparing(Store(copy), 1, Budget()) as preparing:
        preparing._process.kill()
        preparing.later(unwatched, lambda _: None, lambda reason: (reasons.append(reason), ended.set()))
        assert ended.wait(LONG)
    assert "ended (exit code -9)\n  if the memory did not suffice" in reasons[0]


@pytest.mark.slow
def test_preparing__that_nobody_waits_for_leaves_nothing(path, tmp_path):
    copy = tmp_path / "h.trace"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("enhanced"))
    with Preparing(Store(copy), 1, Budget()) as preparing:
        preparing._pipe.recv()
    assert not preparing._process.is_alive() and preparing._process.exitcode == 0
    assert not (copy / "enhanced").exists()


def test_port__that_is_taken_is_an_error(server):
    with pytest.raises(StoreError, match=r"cannot listen on port \d+: .*\n  choose another one with --port"):
        ViewServer(server.run, server.server_port)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command__says_where_and_ends_with_the_terminal(path, number):
    environment = {**os.environ, "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "PYTHONUNBUFFERED": "1"}
    # Ctrl-C is ignored if tests run in the background
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tracecols.cli import main; main()"
    command = [sys.executable, "-c", start, "view", str(path), "--no-browser", "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    where = process.stdout.readline()
    url = where.split()[-1]
    port = int(url.split(":")[2].split("/")[0])
    assert f"ssh -L {port}:127.0.0.1:{port} 10.0.0.2" in process.stdout.readline()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    connection.request("GET", url.partition(str(port))[2])
    assert connection.getresponse().status == 200
    process.send_signal(number)
    out, error = process.communicate(timeout=LONG)
    assert process.returncode == 0, error
    assert "Traceback" not in out + error


def test_trees__have_rules_of_their_own_and_say_what_is_wrong(server):
    target = f"/{server.token}/trees?from=0&to=100000000&row=0&timeline=from=0%26to=9"
    status, headers, body = ask(server, target)
    # the page that waits for the trees
    assert status == 200 and b'<div id="timeline">' in body
    status, headers, body = ask(server, f"/{server.token}/data/trees?from=0&to=100000000")
    lines = [json.loads(line) for line in body.splitlines()]
    assert status == 200 and headers["Content-Type"] == "application/x-ndjson"
    assert lines[-1] == {"ready": True}
    assert [*dict.fromkeys(line["stage"] for line in lines[:-1])] == ["cutting", "analyzing"]
    assert all(0 <= line["share"] <= 1 for line in lines[:-1])
    status, headers, body = ask(server, target)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'; script-src 'sha256-" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert b'id="tracecols-header"' in body
    for query in (
        "",
        "from=x&to=3",
        "from=9&to=3",
        "from=0&to=9&row=77",
        "from=0&to=9&slice=1,2",
        "from=0&to=9&path=99999",
    ):
        status, headers, body = ask(server, f"/{server.token}/trees?{query}")
        assert status == 400 and headers["Content-Type"].startswith("text/plain"), query
        assert body.startswith((b"The trees of this range", b"The address makes no sense"))
        status, _, body = ask(server, f"/{server.token}/data/trees?{query}")
        assert status == 400 and json.loads(body)["error"], query
    assert ask(server, "/x/trees?from=0&to=9")[0] == 403


def test_folded_phases__are_answered(server):
    assert ask(server, f"/{server.token}/fold?phase=h_region")[0] == 200
    status, _, body = ask(server, f"/{server.token}/data/about?phase=h_region")
    assert status == 200 and decode(body)[0]["folded"]["n"] == 12
    status, _, body = ask(server, f"/{server.token}/data/view?phase=h_region&from=0&to=9000&columns=100&rows=0,1")
    assert status == 200 and decode(body)[0]["detail"]
    for query in (
        "about?phase=nowhere",
        "about?phase=h_region&order=x",
        "cause?phase=h_region&location=0&begin=0&end=1",
        "about?phase=h_region&within=x",
    ):
        status, _, body = ask(server, f"/{server.token}/data/{query}")
        assert status in (400, 500) and json.loads(body)["error"], query


def test_analysis__ends_between_reports_as_well(server, monkeypatch):
    """It ends before the next step of a stage, whichever thread runs it and however long it does not report."""
    trees, reached, ended = server.run.trees, Event(), Event()
    analyse = trees.analyse

    def quietly(selection, report, ask):
        def asked():
            reached.set()
            sleep(0.01)
            ask()

        try:
            # without reports nothing is written, so no write fails
            analyse(selection, lambda *_: None, asked)
        finally:
            ended.set()

    monkeypatch.setattr(trees, "analyse", quietly)
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LONG)
    connection.request("GET", f"/{server.token}/data/trees?from=7&to=90000001")
    answer = connection.getresponse()
    assert reached.wait(LONG)
    answer.close()
    connection.close()
    assert ended.wait(LONG)
    assert not trees.is_ready(Selection(7, 90_000_001))


@pytest.mark.parametrize("stage", ["waiting", "cutting", "analyzing"])
def test_analysis__ends_when_the_page_does_not_wait_any_more(server, stage, monkeypatch):
    """It ends in each stage, and the next range is analysed."""
    trees, reached, ended = server.run.trees, Event(), Event()
    analyse = trees.analyse

    def slowly(selection, report, ask):
        def told(what, done, total):
            if what == stage:
                # a line is written in each iteration until the connection is closed
                reached.set()
                while True:
                    report(what, done, total)
                    sleep(0.11)
            report(what, done, total)

        try:
            analyse(selection, told, ask)
        finally:
            ended.set()

    monkeypatch.setattr(trees, "analyse", slowly)
    if stage == "waiting":
        trees._lock.acquire()
    start = 1_000 + ord(stage[0])
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LONG)
    connection.request("GET", f"/{server.token}/data/trees?from={start}&to=90000000")
    answer = connection.getresponse()
    assert json.loads(answer.readline())["stage"] in ("waiting", "cutting")
    assert reached.wait(LONG)
    answer.close()
    connection.close()
    assert ended.wait(LONG)
    if stage == "waiting":
        trees._lock.release()
    monkeypatch.undo()
    selection = Selection(start, 90_000_000)
    assert not trees.is_ready(selection)
    body = ask(server, f"/{server.token}/data/trees?from={start}&to=90000000")[2]
    assert json.loads(body.splitlines()[-1]) == {"ready": True} and trees.is_ready(selection)
