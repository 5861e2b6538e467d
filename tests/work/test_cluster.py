"""Worker processes give the results of threads, bit by bit; workers and clients may die; bad set-ups are errors."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from conftest import LONG
from support.command_line import executed, python

import tracecols
from benchmarks.generate import make, write
from benchmarks.kill import content
from benchmarks.workers import campaign, differences
from tracecols import errors
from tracecols.enhance.dataflow import partitions
from tracecols.enhance.dataflow.partitions import divide
from tracecols.enhance.mpi import collectives
from tracecols.errors import AnalysisError, ClusterError, MissingExtraError
from tracecols.given import files
from tracecols.model import model
from tracecols.work import cluster as clusters
from tracecols.work.cluster import SCRATCH, local_workers

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs signals"),
    pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed (extra dask)"),
]


@pytest.fixture(scope="module")
def client():
    """Return the client of two worker processes that all tests share."""
    with local_workers(2) as found:
        yield found


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return a generated hybrid program: messages, collective operations, teams, locks."""
    return write(make("multizone", 6, 3, 20_000, 1, depth=3), tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def trace(archive):
    return tracecols.open(tracecols.convert(archive, archive.parent / "x.trace"), jobs=2)


@pytest.fixture
def several(monkeypatch):
    """Divide small traces into several partitions, buckets of collective operations and groups of a scan."""
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 2000)
    monkeypatch.setattr(collectives, "BUCKET_ROWS", 400)
    monkeypatch.setattr(model, "SMALLEST_SCAN", 5000)


# -- the same result ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["exact", "scalasca", "expert"])
def test_analyze__workers_find_what_threads_find(conventions, trace, client, several):
    assert differences(trace.analyze(conventions), trace.analyze(conventions, cluster=client)) == []
    assert not list(trace.path.parent.glob(f"{SCRATCH}*"))


@pytest.mark.slow
def test_analyze__workers_find_what_threads_find_by_bins(trace, client, several):
    cubes = trace.analyze(bins=3), trace.analyze(bins=3, cluster=client)
    assert differences(*cubes) == []
    # a difference only in the period is detected
    moved = cubes[1].period_cells["time"]
    moved.period[0] += 1
    assert differences(*cubes) == ["period_cells.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coll", "hybrid_2x3", "late_sender", "omp_basic"])
def test_small_traces__cubes_and_stores_are_those_of_threads(name, data, client, tmp_path):
    expected = tracecols.convert(data / name, tmp_path / "expected.trace")
    found = tracecols.convert(data / name, tmp_path / "found.trace", cluster=client)
    assert content(found) == content(expected)
    # one partition, which threads do not divide
    trace = tracecols.open(expected)
    assert differences(trace.analyze(), trace.analyze(cluster=client)) == []


@pytest.mark.slow
def test_convert__salvages_what_threads_salvage(data, client, tmp_path, several):
    shutil.copytree(data / "hybrid_2x3", tmp_path / "damaged")
    damaged = sorted((tmp_path / "damaged").rglob("*.evt"))[2]
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with pytest.raises(errors.SourceError, match=damaged.name):
        tracecols.convert(tmp_path / "damaged", tmp_path / "x.trace", cluster=client)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged"]
    made = [
        tracecols.convert(tmp_path / "damaged", tmp_path / f"{i}.trace", salvage=True, **given)
        for i, given in enumerate(({}, {"cluster": client}))
    ]
    assert content(made[0]) == content(made[1])
    assert tracecols.open(made[1]).manifest["lost"]


@pytest.mark.slow
def test_analyze__pieces_patterns_and_topologies_go_along(trace, client, several, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import tracecols\n"
        "FACTOR = 2\n"
        "def twice(values):\n    return FACTOR * values\n"
        "@tracecols.pattern('twice', '', 'Twice', table='messages', unit='bytes', summary='Bytes, twice.')\n"
        "def found(model, m, parent):\n    return parent.where(m.length > 0, severity=twice(m.length))\n"
    )
    middle = float(trace.seconds((trace.manifest["first_time"] + trace.manifest["last_time"]) // 2))
    given = {
        "patterns": [file],
        "start": 0.0,
        "stop": middle,
        "topologies": [{"name": "grid", "sizes": [3, 2], "order": "C"}],
    }
    found = trace.analyze(**given, cluster=client, scratch=tmp_path)
    assert differences(trace.analyze(**given), found) == []
    assert found.total("twice") > 0
    assert [p.name for p in tmp_path.iterdir()] == ["mine.py"]


def test_divide__memory_and_slots_bound_partitions():
    process, sizes = np.repeat(np.arange(1000, dtype=np.int32), 2), np.full(2000, 1 << 20)
    assert len(divide(process, sizes)) == 67
    assert len(divide(process, sizes, slots=50)) > 180
    within = divide(process, sizes, memory=partitions.ROW_BYTES << 22)
    assert max(sizes[p.members].sum() for p in within.partitions) <= 1 << 22
    assert sorted(np.concatenate([p.members for p in within.partitions]).tolist()) == list(range(2000))


def _setting(name):
    import dask

    return dask.config.get(name)


@pytest.mark.slow
def test_local_workers__do_not_spend_time_on_watching_themselves(client):
    for name, value in clusters.QUIET.items():
        assert set(client.run(_setting, name).values()) == {value}, name


# -- killed workers and clients ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers__killed_at_random_moments(archive, client, tmp_path, several):
    # if other load on the machine pauses, the work may be done before a worker is killed
    for seed in range(1, 10):
        (folder := tmp_path / str(seed)).mkdir()
        met, wrong = campaign(archive, folder, client, kills=2, seed=seed)
        assert wrong == []
        if met:
            return
    pytest.fail("no worker was killed at work")


@pytest.mark.slow
def test_local_workers__end_though_dask_loses_count_of_them(monkeypatch):
    """Seen once in a campaign of kills: all workers had ended, and the result was complete."""
    from distributed import LocalCluster

    closed, close = [], LocalCluster.close

    def failing(self, *given):
        close(self, *given)
        closed.append(True)
        raise KeyError("tcp://127.0.0.1:1")

    monkeypatch.setattr(LocalCluster, "close", failing)
    with local_workers(1) as client:
        assert len(client.nthreads()) == 1
    assert closed


@pytest.mark.slow
def test_client__that_dies_leaves_scratch_for_the_next_run_to_remove(trace, tmp_path):
    from distributed import LocalCluster

    words = ["-m", "tracecols", "analyze", str(trace.path), "--scratch", str(tmp_path / "s"), "-o", "x.severity"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        there = [sys.executable, *words, "--scheduler", cluster.scheduler_address]
        process = subprocess.Popen(there, cwd=tmp_path, env=env, stderr=subprocess.PIPE)
        until = time.monotonic() + LONG
        while not list(tmp_path.glob(f"s/{SCRATCH}*/work/scan-*")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)
        process.kill()
        process.wait()
    assert len(list((tmp_path / "s").iterdir())) == 1
    assert not (tmp_path / "x.severity").exists()
    python(*words, "--workers", 1, cwd=tmp_path)
    assert not list((tmp_path / "s").iterdir())
    found = tracecols.SeverityCube.load(tmp_path / "x.severity")
    assert differences(trace.analyze(), found) == []


@pytest.mark.slow
def test_interrupt__removes_scratch_and_cancels_tasks(trace, client, several, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    watched = tracecols.Trace(trace.path, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        watched.analyze(cluster=client, scratch=tmp_path)
    assert not list(tmp_path.iterdir())
    until = time.monotonic() + LONG
    while any(client.processing().values()):
        assert time.monotonic() < until
        time.sleep(0.05)
    # the cluster is still usable, and running tasks have left no files
    assert differences(trace.analyze(), trace.analyze(cluster=client, scratch=tmp_path)) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP])
def test_interrupt__of_all_processes_while_workers_start(trace, tmp_path, how):
    """A terminal sends Ctrl-C to worker processes, too; they printed tracebacks."""
    # the command ignores what this process ignores, as under nohup
    before = signal.signal(how, signal.SIG_DFL)
    process = subprocess.Popen(
        [sys.executable, "-m", "tracecols", "analyze", trace.path, "-o", tmp_path / "x.severity", "--workers", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(how, before)
    until = time.monotonic() + LONG
    while not list(tmp_path.glob("*/*.pem")):
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, how)
    said = process.communicate(timeout=LONG)[1]
    assert (process.returncode, said) == (128 + how, "interrupted; nothing was left behind\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_progress__goes_over_scan_and_search(trace, client, several):
    told = []
    watched = tracecols.Trace(trace.path, progress=lambda *now: told.append(now))
    watched.analyze(cluster=client)
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == (trace.manifest["n_events"],) * 2


# -- bad set-ups -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_store__that_workers_do_not_see(trace, client, monkeypatch):
    """The folders below /proc/self are different for every process."""
    client.run(os.chdir, "/")
    monkeypatch.chdir(trace.path.parent)
    here = Path("/proc/self/cwd") / trace.path.name
    with pytest.raises(
        ClusterError, match=r"(?s)workers .* cannot see the store /proc/self/cwd/x.trace\n  put it into"
    ):
        tracecols.open(here).analyze(cluster=client, scratch=trace.path.parent)
    with pytest.raises(ClusterError, match="cannot see the archive"):
        tracecols.convert(Path("/proc/self/cwd/traces.otf2"), trace.path.parent / "y.trace", cluster=client)


@pytest.mark.slow
def test_scratch__that_workers_do_not_see(trace, client, monkeypatch, tmp_path):
    client.run(os.chdir, "/")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClusterError, match="cannot see the scratch folder") as error:
        trace.analyze(cluster=client, scratch="/proc/self/cwd")
    assert "--scratch FOLDER" in error.value.for_shell
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match="cannot make a scratch folder"):
        trace.analyze(cluster=client, scratch=tmp_path / "file")


def _limit_files(n):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, before[1]))


@pytest.mark.slow
def test_disk__of_a_worker_is_full(trace, archive, client, several, tmp_path):
    client.run(_limit_files, 20_000)
    try:
        with pytest.raises(ClusterError, match=r"cannot write .* on .*: File too large\n  make room there"):
            trace.analyze(cluster=client, scratch=tmp_path)
        with pytest.raises(errors.StoreError, match=r"cannot write .* on .*\n  nothing was left behind; make room"):
            tracecols.convert(archive, tmp_path / "x.trace", cluster=client)
    finally:
        client.run(_limit_files, resource.RLIM_INFINITY)
    assert not list(tmp_path.iterdir())


def _version(version):
    tracecols.__version__ = version


@pytest.mark.slow
def test_version__of_workers_is_another_one(trace, client):
    client.run(_version, "0.0.1", workers=[sorted(client.nthreads())[0]])
    try:
        with pytest.raises(
            ClusterError, match=r"worker \w+://\S+ has tracecols 0.0.1, this is tracecols \d\S+\n  install the same"
        ):
            trace.analyze(cluster=client)
    finally:
        client.run(_version, tracecols.__version__)


@pytest.mark.slow
def test_scheduler__does_not_answer(trace, tmp_path):
    env = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    words = ("-m", "tracecols", "analyze", trace.path, "--scheduler", "tcp://127.0.0.1:9")
    found = python(*words, cwd=tmp_path, env=env, code=1)
    assert found.stderr.startswith("error: the scheduler tcp://127.0.0.1:9 does not answer\n  see whether")
    assert not list(tmp_path.iterdir())


def test_scheduler__without_workers_and_a_client_that_is_closed(trace, monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(clusters, "PATIENCE", 5)
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty:
        with (
            Client(empty) as none,
            pytest.raises(ClusterError, match=r"has had no worker for 0 s\n  start some: dask worker"),
        ):
            trace.analyze(cluster=none)
        with pytest.raises(ClusterError, match="is closed"):
            trace.analyze(cluster=none)
    with pytest.raises(ClusterError, match="not as LocalCluster"):
        trace.analyze(cluster=empty)


@pytest.mark.parametrize(
    ("commands", "words", "message"),
    [
        (("analyze", "convert"), ["--workers", "2", "--scheduler", "tcp://x:1"], "give one of --workers"),
        (("convert",), ["--scratch", "s"], "--scratch without --workers"),
        (("analyze",), ["--memory", "1GB", "--workers", "2"], "--memory limits the threads of this process"),
        (("analyze", "convert"), ["--workers", "0"], "0 is not in the range"),
    ],
)
def test_options__that_do_not_go_together(commands, words, message, trace):
    for command in commands:
        assert message in executed(command, trace.path, *words, code=2)


def configured(settings):
    """Change Dask's configuration, in a context.

    Entries that `distributed` adds on import must be there before, or they are removed with the change."""
    import dask

    clusters.import_distributed()
    return dask.config.set(settings)


def waiting(time):
    """Limit the wait for a scheduler, in a context."""
    return configured({"distributed.comm.timeouts.connect": time})


@pytest.fixture
def impatient():
    """Wait for a scheduler a second at most."""
    with waiting("1s"):
        yield


def asked(trace, *words):
    """Return the output of a command that must fail."""

    return executed("analyze", trace.path, *words, code=1)


@pytest.mark.parametrize("given", ["abc", "", "-5", "1e30", [1]])
@pytest.mark.parametrize("words", [("--scheduler", "tcp://127.0.0.1:9"), ("--workers", 1)], ids=lambda words: words[0])
def test_time_to_connect__that_is_no_time(given, words, trace):
    with waiting(given):
        assert f"timeouts.connect in Dask's configuration is {given!r}, which is not a time" in asked(trace, *words)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "error: no such file"),
        ("", "x.json is not a file of a scheduler: it is not JSON\n  'dask scheduler --scheduler-file"),
        ('{"id": "x"}', "x.json is not a file of a scheduler: it names no address"),
        ('{"address": "nonsense"}', "'nonsense' is not an address of a scheduler: missing port number"),
        (
            '{"address": "ucx://x:1"}',
            "'ucx://x:1' is not an address of a scheduler: ucx:// is not a protocol that tracecols uses",
        ),
    ],
    ids=["missing", "empty", "no address", "bad address", "unknown protocol"],
)
def test_scheduler_file__that_cannot_be_used(content, message, trace, tmp_path):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    with waiting("100ms"):
        assert message in asked(trace, "--scheduler-file", path)


@pytest.mark.parametrize("what", ["FIFO", "device", "large"])
def test_scheduler_file__that_is_no_file_of_a_scheduler_is_neither_waited_for_nor_read(
    what, trace, tmp_path, impatient, monkeypatch
):
    path = tmp_path / "x.json"
    if what == "FIFO":
        os.mkfifo(path)
    elif what == "device":
        path = Path("/dev/zero")
    else:
        monkeypatch.setattr(files, "MAX_BYTES", 1_000_000)
        path.write_text(" " * 2_000_000)
    message = {"FIFO": "named pipe", "device": "it is a device", "large": "it has more than 1,000,000 bytes"}[what]
    assert f"error: cannot read {path}: " in (found := asked(trace, "--scheduler-file", path)) and message in found


@pytest.mark.slow
def test_scheduler_file__is_waited_for(client, tmp_path):
    """A job may start the scheduler and its client at the same time."""
    path = tmp_path / "x.json"
    later = Timer(0.5, path.write_text, [f'{{"address": "{client.scheduler.address}"}}'])
    later.start()
    with certificates(client.security), clusters.connected_to(None, path) as found:
        assert found.scheduler.address == client.scheduler.address
    later.join()


# -- TLS, and access to workers ----------------------------------------------------------------------------------------


def certificates(security):
    """Let Dask's configuration name the certificates of a cluster."""
    names = {"ca-file": "ca_file", "client.cert": "client_cert", "client.key": "client_key"}
    return configured(
        {f"distributed.comm.tls.{name}": getattr(security, f"tls_{of}", None) for name, of in names.items()}
    )


@pytest.fixture
def protected(client):
    """The shared workers, which only those reach that have their certificates."""
    pytest.importorskip("cryptography")
    assert client.scheduler.address.startswith("tls://")
    return client


def test_tls__without_certificates_is_refused(trace, impatient):
    found = asked(trace, "--scheduler", "tls://127.0.0.1:1")
    assert "error: tls://127.0.0.1:1 is an address for TLS" in found
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in found


def test_tls__with_certificates_that_cannot_be_read(trace, impatient, tmp_path):
    names = ("ca-file", "client.cert", "client.key")
    with configured({f"distributed.comm.tls.{name}": str(tmp_path / "none.pem") for name in names}):
        found = asked(trace, "--scheduler", "tls://127.0.0.1:1")
    assert "error: the certificates for tls://127.0.0.1:1 cannot be used: " in found


@pytest.mark.slow
def test_tls__with_the_certificates_of_the_configuration(protected, trace):
    with certificates(protected.security), clusters.connected_to(protected.scheduler.address) as found:
        assert found.submit(len, "abc").result() == 3


@pytest.mark.slow
def test_tls__with_certificates_of_another_authority(protected, trace):
    from distributed import Security

    with certificates(Security.temporary()):
        found = asked(trace, "--scheduler", protected.scheduler.address)
    assert "and this client do not agree by TLS: " in found


@pytest.mark.slow
def test_tls__of_a_scheduler_that_is_called_by_tcp(protected, trace, impatient):
    address = protected.scheduler.address.replace("tls://", "tcp://")
    assert "an address with certificates begins with tls://" in asked(trace, "--scheduler", address)


@pytest.mark.slow
def test_local_workers__let_nobody_else_in(protected):
    """Anybody who can connect to a scheduler can execute arbitrary code on its workers."""
    import distributed

    address = protected.scheduler.address.replace("tls://", "tcp://")
    with pytest.raises(OSError), distributed.Client(address, timeout="2s"):
        pass
    with (
        pytest.raises((OSError, ValueError, TypeError)),
        distributed.Client(protected.scheduler.address, timeout="2s", security=distributed.Security.temporary()),
    ):
        pass


def test_local_workers__warn_where_no_certificates_can_be_made(monkeypatch, tmp_path):
    import distributed

    def missing(**_):
        raise ImportError("Using `Security.temporary` requires `cryptography`")

    monkeypatch.setattr(distributed.Security, "temporary", missing)
    with pytest.warns(errors.OpenClusterWarning, match=r"pip install 'tracecols\[dask\]'"):
        assert clusters._own_security(tmp_path) is None


# -- a scheduler that dies ---------------------------------------------------------------------------------------------


@pytest.fixture
def mortal(tmp_path):
    """Start a scheduler and a worker in separate processes; return the scheduler's file and process."""
    path = tmp_path / "x.json"
    options = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
    }
    main = "import sys; from distributed.cli import dask_{0}; sys.argv[0] = '{0}'; dask_{0}.main()"
    local = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    command = [sys.executable, "-c", main.format("scheduler"), "--scheduler-file", path, "--port", "0", *local]
    scheduler = subprocess.Popen([str(c) for c in command], **options)
    command = [sys.executable, "-c", main.format("worker"), "--scheduler-file", path]
    worker = subprocess.Popen([*map(str, command), "--no-nanny", "--local-directory", str(tmp_path)], **options)
    # the start may take long; time limits in tests are for the return of the scheduler
    until = time.monotonic() + LONG
    while not path.exists() and scheduler.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    yield path, scheduler
    for process in (scheduler, worker):
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before it is asked", "while workers work"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_scheduler__that_dies_is_told_without_a_traceback(how, when, mortal, tmp_path, capfd):
    path, scheduler = mortal
    # the time a client waits for a scheduler to come back
    with waiting("10s"), pytest.raises(ClusterError, match="scheduler"), clusters.connected_to(None, path) as client:
        client.wait_for_workers(1, timeout=LONG)
        if when == "before it is asked":
            scheduler.send_signal(how)
            scheduler.wait()
        with clusters.working_on(client, tmp_path, {}, 1) as cluster:
            Timer(1, scheduler.send_signal, [how]).start()
            list(cluster.map(lambda seconds, _report: time.sleep(seconds), [30] * 4))
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err and "ERROR" not in said.err, said


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before workers are asked", "before work begins"])
def test_scheduler__that_hangs_before_work_is_given_up(when, mortal, tmp_path, monkeypatch):
    path, scheduler = mortal
    with clusters.connected_to(None, path) as client:
        client.wait_for_workers(1, timeout=LONG)
        monkeypatch.setattr(clusters, "PATIENCE", 1.0)
        hang = partial(scheduler.send_signal, signal.SIGSTOP)
        if when == "before workers are asked":
            hang()
        else:
            monkeypatch.setattr(clusters, "_by_value", lambda function: hang() or function)
        with (
            pytest.raises(ClusterError, match="has not answered for 1 s"),
            clusters.working_on(client, tmp_path, {}, 1),
        ):
            pass


@pytest.mark.slow
def test_scheduler__that_hangs_is_given_up(mortal, tmp_path, monkeypatch):
    path, scheduler = mortal
    monkeypatch.setattr(clusters, "PATIENCE", 1.0)
    with clusters.connected_to(None, path) as client:
        client.wait_for_workers(1, timeout=LONG)
        with clusters.working_on(client, tmp_path, {}, 1) as cluster:
            Timer(1, scheduler.send_signal, [signal.SIGSTOP]).start()
            with pytest.raises(ClusterError, match="had no worker, or no scheduler, for 1 s"):
                list(cluster.map(lambda seconds, _report: time.sleep(seconds), [30] * 4))


def test_scheduler__that_is_something_else(trace, impatient):
    """The web server of a scheduler accepts a connection and waits for input; a client would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        found = asked(trace, "--scheduler", f"tcp://127.0.0.1:{mute.getsockname()[1]}")
    assert "does not answer as a scheduler does, or hangs\n  see what" in found


def test_extra__is_named_where_it_is_missing(trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tracecols\[dask\]'"):
        trace.analyze(cluster=object())


@pytest.mark.slow
def test_dask__is_not_imported_without_a_cluster(trace):
    code = f"import sys, tracecols; tracecols.open({str(trace.path)!r}).analyze(); print([m for m in ('dask', 'distributed') if m in sys.modules])"
    assert python("-c", code).stdout.strip() == "[]"


def test_errors__can_be_pickled():
    """Workers send errors back; that of a missing package used to fail."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TracecolsError):
            error = kind("a", "b", "c") if kind is MissingExtraError else kind("what\n  do", in_shell="do that")
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again), again.for_shell) == (kind, str(error), error.for_shell)


@pytest.mark.slow
def test_pattern__that_fails_on_a_worker_is_told_as_on_a_thread(trace, client):
    @tracecols.pattern("bad", "", "Bad", table="messages", summary="Bad.")
    def bad(model, m, parent):
        return parent.where(m.nothing > 0)

    with pytest.raises(AnalysisError, match=r"the pattern of property 'bad' .* failed: AttributeError"):
        trace.analyze(patterns=bad, cluster=client)


def test_local_workers__that_cannot_be_started_are_one_clear_error(monkeypatch, tmp_path):
    """Without room for semaphores in /dev/shm: Dask says that a nanny failed, because of this."""
    from distributed.deploy import local

    def fail(**_: object) -> None:
        try:
            raise OSError(30, "Read-only file system")
        except OSError as error:
            raise RuntimeError("Nanny failed to start.") from error

    monkeypatch.setattr(local, "LocalCluster", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(ClusterError, match=r"cannot start worker processes .*: Read-only file system\n  .*/dev/shm"),
        local_workers(1),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_local_workers__that_do_not_fit_into_memory_are_not_started(trace):
    output = executed("analyze", trace.path, "--workers", 100_000, code=1)
    assert "not enough memory for 100,000 worker processes: each takes 100 MB at least" in output


@pytest.mark.slow
def test_client__killed_with_its_workers_leaves_what_the_next_command_removes(trace, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    code = "import sys; from tracecols.cli import group; group(sys.argv[1:])"
    command = [sys.executable, "-c", code, "analyze", str(trace.path), "-o", "x.severity", "--workers", "2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, **quiet)
    until = time.monotonic() + LONG
    while not list(folder.glob("*/dask-scratch-space/*")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = {p.name for p in folder.iterdir()}
    assert left and all(name.startswith("tracecols-") for name in left)
    # a command that uses threads, not workers, and does not read the analysed store
    # workers need some time to see that their client is gone
    until = time.monotonic() + LONG
    while list(folder.iterdir()) and time.monotonic() < until:
        time.sleep(1)
        python("-c", code, "info", trace.manifest["source"]["path"], env={"TMPDIR": str(folder)})
    assert not list(folder.iterdir())
