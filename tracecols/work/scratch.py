"""Scratch folders: each belongs to one process, and the next process removes those that a killed one leaves."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracecols.errors import AnalysisError
from tracecols.given.files import advice_for_output

try:
    import fcntl
except ImportError:  # without such locks, folders of killed processes stay
    fcntl = None  # type: ignore[assignment]


MAKE_ROOM = "make room there, or name a folder with more: scratch=FOLDER, or TMPDIR in the environment"
MAKE_ROOM_IN_SHELL = (
    "make room there, or name a folder with more: TMPDIR in the environment, or --scratch FOLDER of tracecols analyze"
)
"""What to do if temporary files cannot be written."""


def not_written(what: str, error: OSError) -> AnalysisError:
    """Make the error about temporary files that cannot be made or written."""
    return AnalysisError(
        f"{what}: {error.strerror or error}\n  {advice_for_output(error, MAKE_ROOM)}",
        in_shell=advice_for_output(error, MAKE_ROOM_IN_SHELL),
    )


def free_for_files(parent: Path | None = None) -> int:
    """Return the bytes that temporary files may take; `parent` as for `temporary_folder`."""
    try:
        return shutil.disk_usage(parent or tempfile.gettempdir()).free
    except OSError:
        return 0


def reserve(descriptor: int, size: int) -> None:
    """Extend a file that is to be mapped to `size` bytes; new bytes are zero.

    Disk space is reserved for all of them if the file system can: writing to a mapped page without disk space ends the
    process. Raises OSError if there is no space.
    """
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            # not every file system can do this
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    if os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)


def bytes_in(folder: Path) -> int:
    """Return the bytes of the files in a folder, of which some may be removed meanwhile."""
    found = 0
    for entry in os.scandir(folder):
        with suppress(OSError):
            found += entry.stat().st_size
    return found


class ScratchFolder:
    """An empty folder of this process; it disappears with this object, at the latest when the program ends.

    The process holds a lock on it. A killed process leaves its folder without a lock: the next process that makes one
    of the same name on the same machine removes it, after calling `rescue` with it. Raises OSError if it cannot be
    made.
    """

    def __init__(
        self, parent: Path, before: str, after: str = "", rescue: Callable[[Path], None] | None = None
    ) -> None:
        before += hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest() + "-"
        _sweep(parent, before, after, rescue)
        while True:
            self.path = parent / f"{before}{uuid.uuid4().hex[:8]}{after}"
            self.path.mkdir(mode=0o700)
            try:
                lock = _lock(self.path)
                break
            except (BlockingIOError, FileNotFoundError):
                # another process took it for an abandoned one before it was locked
                continue
            except OSError:
                self.path.rmdir()
                raise
        self.remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def temporary_folder(parent: Path | None = None) -> ScratchFolder:
    """Make a folder for temporary files. Raises AnalysisError if it cannot be made."""
    try:
        return ScratchFolder(parent or Path(tempfile.gettempdir()), "tracecols-")
    except OSError as error:
        where = parent or tempfile.tempdir or "any folder for such files"
        raise not_written(f"cannot make a temporary folder in {where}", error) from error


@contextmanager
def naming_full_disks(folder: Path) -> Iterator[None]:
    """Write files to a temporary folder. Raises AnalysisError if they cannot be written."""
    try:
        yield
    except OSError as error:
        raise not_written(f"cannot write temporary files in {folder.parent}", error) from error


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process is in such a context for a folder, if there are such locks. Raises OSError
    if the folder cannot be opened."""
    if fcntl is None:
        yield
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # not every file system has locks
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _lock(path: Path) -> int | None:
    """Lock a folder and return its descriptor; None if there are no such locks. Raises BlockingIOError,
    FileNotFoundError if another process holds it, or it is gone."""
    if fcntl is None:
        return None
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.lstat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        raise
    except OSError:
        os.close(lock)
        return None
    os.close(lock)
    raise FileNotFoundError(path)


def _remove(path: Path, lock: int | None, process: int) -> None:
    """Remove a folder, unless this process was forked from the one that it belongs to."""
    is_mine = process == os.getpid()
    try:
        if is_mine:
            shutil.rmtree(path, ignore_errors=True)
    except KeyboardInterrupt:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    if is_mine and path.exists():
        # rmtree opens two files for each level, and may have had none left; this opens one, that of the lock
        for folder, folders, files in os.walk(path, topdown=False):
            with suppress(OSError):
                for name in files:
                    os.unlink(os.path.join(folder, name))
                for name in folders:
                    os.rmdir(os.path.join(folder, name))
        with suppress(OSError):
            path.rmdir()


def _sweep(parent: Path, before: str, after: str, rescue: Callable[[Path], None] | None) -> None:
    """Remove the folders on which no process holds a lock any more."""
    if fcntl is None:
        return
    try:
        with os.scandir(parent) as entries:
            found = [Path(e.path) for e in entries if e.name.startswith(before) and e.name.endswith(after)]
    except OSError:
        return
    for path in found:
        try:
            lock = _lock(path)
        except OSError:
            continue
        if lock is None:
            continue
        is_mine = os.fstat(lock).st_uid == os.getuid()
        if is_mine and rescue is not None:
            rescue(path)
        if is_mine:
            _remove(path, lock, os.getpid())
        else:
            os.close(lock)
