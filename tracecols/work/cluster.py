"""Workers in separate processes and on other machines: a Dask cluster (extra `dask`), imported only when it is used.

Scheduler and network carry only the names of tasks. Their inputs and results are in a scratch folder that the client
and all workers see: one file for each function, result and kept value, written under another name and renamed when it
is complete. A task that runs again, since its worker was lost, finds what is already done.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import shutil
import signal
import socket
import ssl
import time
import types
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing import resource_tracker
from pathlib import Path
from queue import Empty, Queue
from threading import RLock, current_thread, main_thread
from typing import Any

from tracecols.errors import ClusterError, MissingExtraError, OpenClusterWarning, TracecolsError
from tracecols.given.arguments import as_path
from tracecols.given.files import read_json
from tracecols.given.quantities import in_words
from tracecols.version import __version__
from tracecols.work.executors import Item, Report, Result, Task, not_reported
from tracecols.work.memory import Budget, available
from tracecols.work.scratch import ScratchFolder, temporary_folder

SCRATCH = ".tracecols-cluster-"
"""Prefix of the names of scratch folders."""

PATIENCE = 300.0
"""Seconds without any worker, or without the scheduler, after which an analysis gives up."""

MOST_SECONDS = 1e9
"""Seconds to connect that the system can wait."""

RETRIES = 2
"""Number of times a task is run again if it failed for a reason that may pass (file systems, memory)."""

WORKER = 100_000_000
"""Bytes that a worker process of this machine takes at least."""

LOADED = 1 << 29
"""Bytes of values that a worker holds because it may need them again."""

MALLOC = {
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Environment in which the C library keeps freed memory, as in commands."""

QUIET = {
    "distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "500ms",
}  # fmt: skip
"""Settings with which worker processes of this machine do less often than by Dask's defaults, or not at all: look at
the stacks of their threads every 10 ms, at their event loop every 20 ms, at their memory every 100 ms. The defaults
take 5 % of a processor for each worker and 8 % for the scheduler."""


def import_distributed() -> Any:
    """Import Dask's scheduler. Raises MissingExtraError if it is not installed."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("distributed", "dask", "Work on a cluster or on worker processes") from error
    return distributed


# -- files that all see ------------------------------------------------------------------------------------------------


def _another_folder(what: str, todo: str) -> ClusterError:
    """Make the error about a scratch folder; `todo` has braces for the argument or option that names another one."""
    return ClusterError(f"{what}\n  {todo.format('scratch=FOLDER')}", in_shell=todo.format("--scratch FOLDER"))


def cannot_write(path: Path, error: OSError) -> ClusterError:
    """Make the error about a file in the scratch folder that cannot be written."""
    where = f"on {platform.node()}"
    if isinstance(error, FileNotFoundError):
        return ClusterError(
            f"the scratch folder {path.parent} is no longer there {where}\n"
            "  it was removed while it was in use; start again"
        )
    return _another_folder(
        f"cannot write {path} {where}: {error.strerror or error}",
        "make room there, or give another folder that all workers see: {}",
    )


def save(path: Path, value: object) -> None:
    """Pickle a value to a file that appears complete or not at all; concurrent writers write the same value. Functions
    that are in no module are pickled by value (cloudpickle). Raises ClusterError if it cannot be written.
    """
    import cloudpickle

    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with beside.open("wb") as file:
            cloudpickle.dump(value, file, protocol=5)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise cannot_write(path, error) from error


def load(path: Path) -> Any:
    """Read a value. Raises FileNotFoundError if there is none."""
    with path.open("rb") as file:
        return pickle.load(file)


class Loaded:
    """The values that this process has read: those that every task needs, and the most recent of the others."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._values: OrderedDict[Path, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._root = Path()

    def begin(self, root: Path) -> None:
        """Forget the values of analyses that are over when a task of another one begins."""
        with self._lock:
            if root == self._root:
                return
            self._root = root
            for path in [p for p in self._values if not p.parent.exists()]:
                self._size -= self._values.pop(path)[1]

    def forget(self, root: Path) -> None:
        """Forget the values of an analysis."""
        with self._lock:
            for path in [p for p in self._values if p.is_relative_to(root)]:
                self._size -= self._values.pop(path)[1]

    def get(self, path: Path, *, always: bool = False) -> Any:
        """Return a value, reading it if it is not held. Raises FileNotFoundError if there is none."""
        with self._lock:
            found = self._values.get(path)
            if found is None:
                value = load(path)
                size = 0 if always else path.stat().st_size
                self._values[path] = found = value, size
                self._size += size
                while self._size > LOADED:
                    old = next(p for p, (_, n) in self._values.items() if n)
                    self._size -= self._values.pop(old)[1]
            elif found[1]:
                self._values.move_to_end(path)
            return found[0]


loaded = Loaded()
"""The values that this process has read."""


# -- tasks -------------------------------------------------------------------------------------------------------------


@contextmanager
def explaining_loss() -> Iterator[None]:
    """Convert Dask's exceptions at the end of a connection. Raises ClusterError if the scheduler is lost."""
    client = import_distributed().client
    closed = getattr(client, "ClosedClientError", client.CommClosedError)
    try:
        yield
    except TimeoutError:
        # the connection exists, and something else timed out
        raise
    except (OSError, closed) as error:
        raise ClusterError(
            f"the connection to the scheduler was lost: {error}\n  look at its log, and start again"
        ) from error


def answered(client: Any, function: Callable[..., Any], *args: Any, **how: Any) -> Any:
    """Return what a method of a client returns that passes `callback_timeout` on to `client.sync`, or `client.sync`
    itself. Raises ClusterError if the scheduler is lost, or there is no answer."""
    try:
        with explaining_loss():
            return function(*args, callback_timeout=PATIENCE, **how)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler {client.scheduler.address}, or a worker, has not answered for {PATIENCE:.0f} s\n"
            "  look at their logs, and start again"
        ) from error


@contextmanager
def without_logs() -> Iterator[None]:
    """Keep Dask and its libraries from logging to the terminal: their problems are raised as errors as well."""
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    before = [[(handler, handler.level) for handler in logger.handlers] for logger in loggers]
    # a logger without a handler writes to the error stream all the same
    silent = logging.NullHandler()
    try:
        for logger in loggers:
            logger.addHandler(silent)
            for handler in logger.handlers:
                handler.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.removeHandler(silent)
            for handler, level in handlers:
                handler.setLevel(level)


def load_or_make(path: Path, make: Callable[[], Any], *, always: bool = False) -> Any:
    """Return the value in a file; if there is none, make and write it. `always`: every task needs it."""
    try:
        return loaded.get(path, always=always)
    except FileNotFoundError:
        value = make()
        save(path, value)
        return value


class Failure:
    """An error that is the result of a task, and would be again if the task was repeated."""

    def __init__(self, error: TracecolsError) -> None:
        self.error = error


def perform(root: Path, folder: Path, number: int, item: object) -> None:
    """Apply the function in a folder to an item, on a worker; write result and amount done to the folder."""
    path = folder / f"{number}.result"
    if path.exists():
        return
    loaded.begin(root)
    done: list[int] = []
    try:
        function = loaded.get(folder / "function", always=True)
        found = function(item, done.append)
    except TracecolsError as error:
        found = Failure(error)
    save(path, (found, sum(done)))


def _state(root: str, paths: dict[str, str], token: str) -> dict[str, Any]:
    """Return what a worker has and sees; sent by value, since it may have another tracecols or none."""
    import hashlib
    import importlib
    import os
    import sys

    found: dict[str, Any] = {"python": list(sys.version_info[:2]), "version": "", "code": ""}
    try:
        tracecols = importlib.import_module("tracecols")

        found["version"] = tracecols.__version__
        code = hashlib.blake2b(digest_size=8)
        folder = os.path.dirname(str(tracecols.__file__))
        for where, _, names in sorted(os.walk(folder, followlinks=True)):
            for name in sorted(n for n in names if n.endswith(".py")):
                with open(os.path.join(where, name), "rb") as file:
                    code.update(os.path.relpath(file.name, folder).encode() + file.read())
        found["code"] = code.hexdigest()
    except ImportError:
        pass
    found["lacks"] = [name for name, path in paths.items() if not os.path.exists(path)]
    found["sees_scratch"] = os.path.exists(os.path.join(root, token))
    try:
        where = os.path.join(root, token + "-" + str(os.getpid()))
        with open(where, "wb") as file:
            file.write(b"x" * 4096)
        os.remove(where)
        found["cannot_write"] = ""
    except OSError as error:
        found["cannot_write"] = error.strerror or str(error)
    return found


def _by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is pickled with its code instead of the name of its module."""
    assert isinstance(function, types.FunctionType)  # only these have code
    copy = types.FunctionType(function.__code__, {"__builtins__": __builtins__}, function.__name__)
    copy.__module__ = "__main__"
    return copy


def _some(workers: list[str]) -> str:
    """Name some workers."""
    rest = f" and {len(workers) - 3} more" if len(workers) > 3 else ""
    return ("worker " if len(workers) == 1 else "workers ") + ", ".join(workers[:3]) + rest


class Cluster:
    """The workers of a Dask cluster (`executors.Executor`).

    Attributes
    ----------
    slots, memory : int
        Tasks that run at the same time, and the bytes for each of them.
    budget : Budget
        Budget of the client, which has no limit.
    capacity : int or None
        Bytes for the data of the whole trace that a task holds.
    """

    def __init__(self, client: Any, folder: Path, jobs: int) -> None:
        self.client, self.folder, self.jobs = client, folder, jobs
        workers = answered(client, client.sync, client.scheduler.identity, n_workers=-1)["workers"].values()
        self.slots = max(1, sum(w["nthreads"] for w in workers))
        limits = [w["memory_limit"] // max(1, w["nthreads"]) for w in workers if w["memory_limit"]]
        self.memory: int | None = min(limits, default=None)  # type: ignore[type-var]
        # every task holds these data separately
        self.budget, self.capacity = Budget(), self.memory
        self._numbers = count()

    def new_folder(self, name: str) -> Path:
        """Make a folder in the scratch folder."""
        path = self.folder / f"{name}-{next(self._numbers)}"
        try:
            path.mkdir()
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    def check(self, sees: Mapping[str, Path]) -> None:
        """Refuse workers that have another tracecols, or do not see the files they need: `sees` has their paths by
        names for messages. Raises ClusterError."""
        token = uuid.uuid4().hex
        (self.folder / token).write_bytes(b"")
        given = str(self.folder), {name: str(path) for name, path in sees.items()}, token
        mine = _state(*given)
        found = answered(self.client, self.client.run, _by_value(_state), *given, on_error="return")
        asked = {w: s for w, s in found.items() if isinstance(s, dict)}
        if not asked:
            why = next(iter(found.values()), "no worker is there")
            raise ClusterError(f"no worker of the cluster answers: {why}\n  start workers, or look at their logs")

        def those(wrong: Callable[[dict[str, Any]], bool]) -> list[str]:
            return sorted(w for w, s in asked.items() if wrong(s))

        for bad, text in (
            (those(lambda s: s["python"] != mine["python"]), "another Python than here ({python[0]}.{python[1]})"),
            (those(lambda s: not s["version"]), "no tracecols"),
            (those(lambda s: s["version"] != __version__), "tracecols {version}"),
            (those(lambda s: s["code"] != mine["code"]), "other code of tracecols {version} than here"),
        ):
            if bad:
                has = "has " if len(bad) == 1 else "have "
                raise ClusterError(
                    f"{_some(bad)} {has}{text.format(**asked[bad[0]])}, this is tracecols {__version__}\n"
                    "  install the same environment on all machines and start the workers again"
                )
        for name, path in sees.items():
            bad = those(lambda s, name=name: name in s["lacks"])  # type: ignore[misc]
            if bad:
                raise ClusterError(
                    f"{_some(bad)} cannot see {name} {path}\n"
                    "  put it into a folder that all machines have under the same name"
                )
        hint = "give a folder that all machines have under the same name and may write to: {}"
        for bad, what in (
            (those(lambda s: not s["sees_scratch"]), "cannot see the scratch folder"),
            (those(lambda s: bool(s["cannot_write"])), "cannot write to the scratch folder"),
        ):
            if bad:
                why = asked[bad[0]]["cannot_write"] if "write" in what else ""
                raise _another_folder(f"{_some(bad)} {what} {self.folder.parent}{': ' * bool(why)}{why}", hint)

    def go_on(self) -> None:
        """Let all work continue: a cluster cancels its tasks when no more results are wanted."""

    def map(
        self,
        function: Task[Item, Result],
        items: Iterable[Item],
        report: Report = not_reported,
        ahead: int | None = None,
    ) -> Iterator[Result]:
        """Yield the results of a function for each item, in the order of the items; reports of tasks arrive with their
        results, any number of which wait in files. Raises ClusterError if workers, or the scheduler, are lost for
        good."""
        given = list(items)
        folder = self.new_folder("tasks")
        save(folder / "function", function)
        arrived: Queue[Any] = Queue()
        waiting: dict[str, tuple[int, Any]] = {}
        name = f"tracecols-{getattr(function, 'name', type(function).__name__)}"
        try:
            for number, item in enumerate(given):
                key = f"{name}-{number}-{uuid.uuid4().hex[:8]}"
                with explaining_loss():
                    future = self.client.submit(
                        perform, self.folder, folder, number, item, key=key, pure=False, retries=RETRIES
                    )
                waiting[future.key] = number, future
                future.add_done_callback(arrived.put)
            done: set[int] = set()
            following = 0
            while following < len(given):
                future = self._next(arrived)
                if future.key not in waiting:
                    continue
                self._check(future)
                done.add(waiting.pop(future.key)[0])
                while following in done:
                    path = folder / f"{following}.result"
                    found, n_done = self._result(path)
                    path.unlink(missing_ok=True)
                    report(n_done)
                    following += 1
                    yield found
        finally:
            if waiting:
                with suppress(Exception):
                    self.client.cancel([f for _, f in waiting.values()], force=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _result(self, path: Path) -> tuple[Any, int]:
        try:
            found, n_done = load(path)
        except FileNotFoundError as error:
            raise _another_folder(
                f"a worker has written {path}, which is not here",
                "give a folder that all machines have under the same name: {}",
            ) from error
        if isinstance(found, Failure):
            raise found.error
        return found, n_done

    def _next(self, arrived: Queue[Any]) -> Any:
        """Wait for the next task that is done."""
        alone_since = None
        while True:
            try:
                return arrived.get(timeout=5.0)
            except Empty:
                is_alone = True
                with suppress(Exception):
                    # a scheduler that hangs would be waited for for ever
                    is_alone = not self.client.sync(self.client.scheduler.ncores, callback_timeout=5.0)
                if not is_alone:
                    alone_since = None
                    continue
                now = time.monotonic()
                alone_since = now if alone_since is None else alone_since
                if now - alone_since > PATIENCE:
                    raise ClusterError(
                        f"the cluster had no worker, or no scheduler, for {PATIENCE:.0f} s\n"
                        "  look at their logs, and start again"
                    ) from None

    def _check(self, future: Any) -> None:
        """Raise the error of a task."""
        if future.status == "finished":
            future.release()
            return
        with explaining_loss():
            error = future.exception() if future.status == "error" else None
        if error is None:
            raise ClusterError(
                "the scheduler has lost or cancelled what it was asked to do\n  look at its log, and start again"
            )
        if isinstance(error, import_distributed().KilledWorker):
            raise ClusterError(
                f"workers died again and again while they did the same task: {future.key}\n"
                "  most often the memory does not suffice: give workers more of it (--memory-limit), or fewer "
                "threads each; see their logs"
            ) from error
        raise error


def check_client(client: Any) -> None:
    """Refuse anything but a working client. Raises ClusterError."""
    distributed = import_distributed()
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ClusterError(
            f"a cluster is given by its client, not as {type(client).__name__}\n"
            "  give a distributed.Client that is not asynchronous"
        )
    if client.status != "running":
        raise ClusterError(
            f"the client of the cluster has no scheduler: it is {client.status}\n"
            "  connect again: distributed.Client(ADDRESS)",
            in_shell="look at the log of the scheduler, and start again",
        )
    # what follows has no time limit if the scheduler does not answer at all
    answered(client, client.sync, client.scheduler.identity)
    try:
        with explaining_loss():
            client.wait_for_workers(1, timeout=PATIENCE / 10)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler {client.scheduler.address} has had no worker for {PATIENCE / 10:.0f} s\n"
            f"  start some: dask worker {client.scheduler.address}"
        ) from error


@contextmanager
def working_on(client: Any, parent: Path, sees: Mapping[str, Path], jobs: int) -> Iterator[Cluster]:
    """Work on a cluster; the scratch folder in `parent`, which all machines see under this path, is removed at the end.

    A client that is killed leaves its scratch folder; the next one on the same machine with the same `parent` removes
    it. `sees` has the paths of further files that workers must see, by names for messages. Raises ClusterError if the
    cluster cannot be used. Raises MissingExtraError if Dask is not installed.
    """
    check_client(client)
    try:
        parent = parent.absolute()
        parent.mkdir(parents=True, exist_ok=True)
        scratch = ScratchFolder(parent, SCRATCH)
    except OSError as error:
        raise _another_folder(
            f"cannot make a scratch folder in {parent}: {error.strerror or error}",
            "give a folder that all machines see and may write to: {}",
        ) from error
    with scratch as outer:
        folder = outer / "work"
        folder.mkdir()
        try:
            cluster = Cluster(client, folder, jobs)
            cluster.check({name: path.absolute() for name, path in sees.items()})
            yield cluster
        finally:
            # tasks that still run then find no folder to write to, so that no file appears while it is removed
            with suppress(OSError):
                folder.rename(outer / "left")
            loaded.forget(folder)


def default_scratch(given: str | Path | None, beside: Path) -> Path:
    """Return where scratch folders are made: in the given folder, or beside a path that all machines see."""
    return as_path(given, ClusterError) if given is not None else beside.absolute().parent


def _own_security(folder: Path) -> Any:
    """Return certificates that only the processes of one cluster know; None, with a warning, if they cannot be made.

    They are files of a folder that is removed with the cluster: certificates in memory would be written to the folder
    of temporary files for each connection, and stay there if the process is killed at that moment.
    """
    distributed = import_distributed()
    try:
        made = distributed.Security.temporary()
    except ImportError:
        warnings.warn(
            "other users of this machine can reach the workers, since there are no certificates without the "
            "package 'cryptography'\n"
            "  install it with: pip install 'tracecols[dask]'",
            OpenClusterWarning,
            stacklevel=2,
        )
        return None
    files = {}
    for name in (
        "tls_ca_file",
        *(f"tls_{role}_{kind}" for role in ("client", "scheduler", "worker") for kind in ("cert", "key")),
    ):
        files[name] = str(folder / f"{name}.pem")
        with open(os.open(files[name], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(getattr(made, name))
    return distributed.Security(require_encryption=True, **files)


def _reason(error: BaseException) -> str:
    """Return the text of the original error that led to an error of Dask."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Postpone an interrupt or a termination signal to the end of the context; a second one is not postponed. Threads
    and processes that are started in the context never get such signals: a terminal sends Ctrl-C to worker processes,
    too, which end with the command that started them."""
    signals = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    came, before, mask = list[int](), dict[int, Any](), None

    def come(number: int, _frame: object) -> None:
        came.append(number)
        if len(came) > 1:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)

    if current_thread() is main_thread():
        # another thread may get the signal
        before = {one: signal.signal(one, come) for one in signals}
    if hasattr(signal, "pthread_sigmask"):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        # the process that removes semaphores inherits the mask; starting it unblocks signals
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        restore()
        if len(came) == 1:
            signal.raise_signal(came[0])


@contextmanager
def local_workers(n: int, threads: int = 1) -> Iterator[Any]:
    """Start worker processes on this machine and yield their client; they end with the context.

    They use TLS with their own certificates: anyone who can connect to a scheduler can execute anything on its workers.

    Raises ClusterError if they cannot be started, or take more memory than is free. Raises MissingExtraError if Dask is
    not installed.
    """
    distributed = import_distributed()
    _time_to_connect()
    free = available()
    if free is not None and n * WORKER > free:
        raise ClusterError(
            f"there is not enough memory for {n:,} worker processes: each takes {in_words(WORKER, 'bytes')} at least, "
            f"and {in_words(free, 'bytes')} are free\n  start fewer: one per core suffices"
        )
    import dask
    from distributed.deploy.local import LocalCluster

    # a killed process leaves the folder, and the next command removes it
    with (
        temporary_folder() as folder,
        dask.config.set({"distributed.nanny.pre-spawn-environ": MALLOC, "temporary-directory": str(folder), **QUIET}),
    ):
        try:
            with _uninterrupted():
                cluster = LocalCluster(
                    n_workers=n,
                    threads_per_worker=threads,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                    local_directory=str(folder),
                    security=_own_security(Path(folder)),
                )
        except (OSError, RuntimeError) as error:
            raise ClusterError(
                f"cannot start worker processes on this machine: {_reason(error)}\n"
                "  they need room for temporary files (TMPDIR), semaphores in shared memory (/dev/shm) and sockets of "
                "this machine; threads (--jobs) need neither"
            ) from error
        try:
            with distributed.Client(cluster) as client:
                yield client
        finally:
            # after all have ended, it may fail to remove a lost worker from its list that was never on it
            with _uninterrupted(), suppress(KeyError):
                cluster.close()


def _time_to_connect() -> float:
    """Return the seconds until Dask gives up a connection. Raises ClusterError if its configuration has none."""
    import dask
    from dask.utils import parse_timedelta

    name = "distributed.comm.timeouts.connect"
    given = dask.config.get(name)
    with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        if 0 <= (seconds := parse_timedelta(given, default="s")) < MOST_SECONDS:
            return float(seconds)
    raise ClusterError(f"{name} in Dask's configuration is {given!r}, which is not a time\n  set it to one such as 30s")


def _address_in(path: Path, seconds: float) -> str:
    """Return the address in a file, waiting some seconds for it. Raises ClusterError if there is none."""
    until = time.monotonic() + seconds
    while True:
        try:
            found = read_json(path)
            address = found.get("address") if isinstance(found, dict) else None
            if isinstance(address, str):
                return address
            why, may_come = f"{path} is not a file of a scheduler: it names no address", False
        except FileNotFoundError:
            why, may_come = f"no such file: {path}", True
        except OSError as error:
            why, may_come = f"cannot read {path}: {error.strerror or error}", False
        except ValueError:
            # it may be written in part
            why, may_come = f"{path} is not a file of a scheduler: it is not JSON", True
        if not may_come or time.monotonic() > until:
            raise ClusterError(f"{why}\n  'dask scheduler --scheduler-file {path}' writes it")
        time.sleep(0.1)


def _tls_context(address: str) -> ssl.SSLContext | None:
    """Return the TLS context for a connection to a scheduler, from Dask's configuration; None for addresses without
    TLS. Raises ClusterError if the configuration is missing or unusable."""
    from distributed import Security

    if not address.startswith("tls://"):
        return None
    names = "distributed.comm.tls.ca-file, .client.cert and .client.key"
    try:
        context: ssl.SSLContext | None = Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"the certificates for {address} cannot be used: {error}\n  see {names} in Dask's configuration"
        ) from error
    if context is None:
        raise ClusterError(
            f"{address} is an address for TLS, and Dask's configuration names no certificates for it\n"
            f"  set {names} there, or DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT and ...__CLIENT__KEY "
            "(docs/cluster.md)"
        )
    return context


def _wait_for_answer(address: str, where: str, seconds: float) -> None:
    """Wait until a scheduler answers: a client would wait forever for a peer that accepts its connection and sends
    nothing. Raises ClusterError if it does not."""
    from distributed.comm import get_address_host_port, parse_address

    try:
        scheme, _ = parse_address(address)
        host_and_port = get_address_host_port(address) if scheme in ("tcp", "tls") else None
        if scheme not in ("tcp", "tls", "ws", "wss"):
            raise ValueError(f"{scheme}:// is not a protocol that tracecols uses")
    except ValueError as error:
        raise ClusterError(
            f"{address!r} is not an address of a scheduler: {error}\n  such as tcp://host:8786"
        ) from error
    if host_and_port is None:
        return
    context = _tls_context(address)
    until, failed = time.monotonic() + seconds, None
    while (left := until - time.monotonic()) > 0:
        try:
            with ExitStack() as stack:
                peer = stack.enter_context(socket.create_connection(host_and_port, timeout=left))
                peer.settimeout(max(1.0, until - time.monotonic()))
                # schedulers send the first message
                is_mute = True
                with suppress(TimeoutError):
                    if context is not None:
                        peer = stack.enter_context(context.wrap_socket(peer))
                    is_mute = not peer.recv(1)
                if is_mute:
                    raise ClusterError(
                        f"what listens at {address} does not answer as a scheduler does, or hangs\n"
                        "  see what 'dask scheduler' says of its address: most often port 8786; its web page, "
                        "8787, is another one;\n"
                        "  an address with certificates begins with tls://"
                    )
                return
        except ssl.SSLError as error:
            raise ClusterError(
                f"{address} and this client do not agree by TLS: {error}\n"
                "  see whether scheduler and client have certificates of the same authority (docs/cluster.md)"
            ) from error
        except OSError as error:
            failed = error
            time.sleep(0.2)
    raise ClusterError(
        f"the scheduler {where} does not answer\n  see whether it runs and can be reached: dask scheduler"
    ) from failed


@contextmanager
def connected_to(address: str | None, scheduler_file: Path | None = None) -> Iterator[Any]:
    """Connect to a scheduler by its address or by the file that `dask scheduler --scheduler-file` writes, with the TLS
    certificates of Dask's configuration. Raises ClusterError if it does not answer. Raises MissingExtraError if Dask is
    not installed."""
    distributed = import_distributed()
    where = address or f"of the file {scheduler_file}"
    seconds = _time_to_connect()
    if scheduler_file is not None:
        address = _address_in(scheduler_file, seconds)
    assert address is not None
    _wait_for_answer(address, where, seconds)
    with without_logs():
        try:
            client = distributed.Client(address)
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            raise ClusterError(
                f"the scheduler {where} does not answer: {error}\n"
                "  see whether it runs and can be reached: dask scheduler"
            ) from error
        with client:
            yield client
