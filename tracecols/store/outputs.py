"""Outputs: files and folders that appear complete or not at all, and the rule for what they may replace.

Whatever tracecols writes for its users is an `Output`. Never replaced are devices, pipes, sockets and folders of
others, and nothing is written into a store or a severity cube. A file or folder that tracecols made in the same way is
replaced. A file that tracecols apparently did not make, and an output that was made in another way, is replaced only if
the caller says so (`force`).
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

from tracecols.errors import ExportError, StoreError, TracecolsError
from tracecols.given.files import advice_for_output, check_path, kind_of, open_regular
from tracecols.store.layout import MANIFEST, is_made_here, kind_of_folder, read_manifest
from tracecols.work.scratch import ScratchFolder

Recognise = Callable[[Path], str | None]
"""Examines what exists in place of an output; returns None if it is not known to be of the same kind, an empty text if
it was made in the same way, otherwise how it was made."""

OWN_FILES = (".parquet", ".npy", ".arrow")
"""Suffixes of the files that tracecols puts into folders, besides manifests."""

HEAD = 1 << 20
"""Bytes at the beginning of a file by which it is recognised."""

CORRECTED, REPLAYED = "TRACECOLS::CLOCKS_CORRECTED", "TRACECOLS::REPLAYED"
"""Entries of the manifest's `source` of stores with times other than the recorded ones."""

_TIMES = {CORRECTED: "corrected clocks", REPLAYED: "predicted times"}


class Output(NamedTuple):
    """A file or folder that is to be written."""

    path: Path
    what: str
    """Its kind, with the article, for errors: a report."""
    recognise: Recognise
    """See `Recognise`; called for regular files and folders."""
    is_folder: bool = False
    """Whether it is a folder. Missing parents of a folder are made."""
    force: bool = False
    """Replace any regular file, and any output that tracecols made in another way."""
    is_part: bool = False
    """Whether it belongs to a store, and may lie in one."""
    error: type[TracecolsError] = StoreError
    """The error to raise."""

    def check(self) -> Path:
        """Refuse to write where nothing may be written; return the path, or the target if it is a link. Raises
        TracecolsError: of the type `error`: if something exists there that must not be replaced, or the path lies in a
        store or a cube."""
        check_path(self.path, self.error)
        path = self._followed()
        if not self.is_part:
            check_place(path, self.error)
        # while another process replaces a folder, its kind may be misjudged: refuse only what was there all the time
        while (seen := _identity_of(path)) is not None and (refusal := self._refusal(path)) is not None:
            if _identity_of(path) == seen:
                raise refusal
        return path

    @contextmanager
    def new(self) -> Iterator[Path]:
        """Yield a path to write to, and move the result to the output's path if the block succeeds; otherwise leave
        nothing.

        A folder already exists, a file does not. Outputs that other processes write to the same path meanwhile are
        replaced: the last complete one stays.
        """
        path = self.check()

        def rescue(left: Path) -> None:
            """Put back an output that a killed process had just moved away."""
            if (left / "old").exists() and not path.exists():
                with suppress(OSError):
                    os.rename(left / "old", path)

        with ExitStack() as stack:
            try:
                if self.is_folder:
                    stack.enter_context(parents_made(path))
                building = stack.enter_context(ScratchFolder(path.parent, f".{path.name}.", ".partial", rescue))
            except OSError as error:
                raise self.error(
                    f"cannot write {path}: {error.strerror or error}\n"
                    f"  {advice_for_output(error, 'choose a folder you may write to')}"
                ) from error
            new = building / "new"
            try:
                if self.is_folder:
                    new.mkdir()
                yield new
                self.check()
                if self.is_folder:
                    _put(new, path, building / "old")
                else:
                    os.replace(new, path)
            except OSError as error:
                if error.filename is not None and not str(error.filename).startswith(str(building)):
                    raise
                raise self.error(
                    f"cannot write {path}: {error.strerror or error}\n"
                    f"  nothing was left behind; {advice_for_output(error, 'make room or choose another folder')}"
                ) from error

    def write(self, text: str, errors: str = "strict") -> None:
        """Write a file with a text in UTF-8; `errors` is as in `str.encode`."""
        with self.new() as path:
            path.write_text(text, encoding="utf-8", errors=errors)

    def _followed(self) -> Path:
        """Return the target of a link; any other path as it is."""
        if not os.path.islink(self.path):
            return self.path
        try:
            return self.path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise self.error(f"{self.path} is a link that leads nowhere\n  give another name, or remove it") from error

    def _refusal(self, path: Path) -> TracecolsError | None:
        """Return the error about what exists at a path; None if it may be replaced, or is gone."""
        try:
            mode = path.stat().st_mode
        except OSError:
            return None
        if not S_ISDIR(mode) and not S_ISREG(mode):
            return self.error(f"{path} is {kind_of(mode)}, which is never replaced\n  give another name")
        if S_ISDIR(mode) and not self.is_folder:
            return self.error(f"{path} is a folder, which is never replaced by a file\n  give another name")
        made = self.recognise(path)
        if S_ISDIR(mode) and made is not None and not self.force and (found := _foreign_in(path)) is not None:
            return self.error(
                f"{path} holds {found.relative_to(path)}, which tracecols did not write\n"
                "  move it elsewhere, give another name, or force=True to replace all of the folder",
                in_shell="move it elsewhere, give another name, or --force to replace all of the folder",
            )
        if made == "" or (self.force and (made is not None or S_ISREG(mode))):
            return None
        noun = self.what.partition(" ")[2]
        is_not = f"is not {self.what}" if self.is_folder else f"is not a {noun} of tracecols"
        text = (
            f"{path} exists and {is_not if made is None else f'was made in another way: {made}'}\n"
            "  give another name, or "
        )
        if S_ISDIR(mode) and made is None:
            return self.error(f"{text}remove it")
        return self.error(f"{text}force=True to replace it", in_shell="give another name, or --force to replace it")


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """Make the missing parents of a path; empty ones are removed if the block fails. Raises OSError."""
    missing: list[Path] = []
    try:
        missing += [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
        raise


def folder_output(path: Path, what: str, *, is_part: bool = False) -> Output:
    """Return a folder with a manifest that replaces others of its kind; a part may lie in its store."""
    return Output(Path(path), what, alike(what, lambda _manifest: ""), is_folder=True, is_part=is_part)


def alike(what: str, differs: Callable[[Mapping[str, Any]], str]) -> Callable[[Path], str | None]:
    """Return a function that recognises (`Output`) a folder with a manifest of the kind `what`; `differs` describes
    from the manifest how it was made differently."""

    def recognise(found: Path) -> str | None:
        if not is_made_here(found, what):
            return None
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            return differs(read_manifest(found)[0])
        # a damaged folder is no loss
        return ""

    return recognise


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, `HEAD` at most."""
    with open_regular(path) as file:
        found: bytes = file.read(HEAD) or b""
        return found


def text_output(
    path: str | Path, what: str, *signatures: bytes, force: bool = False, error: type[TracecolsError] = ExportError
) -> Output:
    """Return an output file whose head holds signatures of tracecols; it replaces files with all of them."""

    def recognise(found: Path) -> str | None:
        try:
            head = head_of(found)
        except OSError:
            return None
        return "" if all(signature in head for signature in signatures) else None

    return Output(Path(path), what, recognise, force=force, error=error)


def store_output(path: str | Path, source: Mapping[str, Any], *, force: bool = False) -> Output:
    """Return the store of a trace; it replaces stores whose times are of the same origin: recorded, corrected or
    predicted; with `force` also those with other times, and any regular file."""

    def differs(manifest: Mapping[str, Any]) -> str:
        there = _times_of(manifest["source"])
        return "" if there == _times_of(source) else f"it is the store of {there}"

    what = "a store of a trace"
    return Output(Path(path), what, alike(what, differs), is_folder=True, force=force)


def _times_of(source: Mapping[str, Any]) -> str:
    times = [words for entry, words in _TIMES.items() if entry in source]
    return f"a trace with {' and '.join(times)}" if times else "a recorded trace"


def check_place(path: Path, error: type[TracecolsError] = StoreError) -> None:
    """Refuse a path that lies in a store, a severity cube or another folder that tracecols made."""
    with suppress(OSError, RuntimeError):
        parent = path.parent.resolve()
        for folder in (parent, *parent.parents):
            if what := kind_of_folder(folder):
                raise error(f"{path} lies in {folder}, {what}: nothing else is written there\n  give another name")


def _foreign_in(folder: Path) -> Path | None:
    """Return a file, in a folder that tracecols made, that tracecols did not write; None if there is none."""
    for path, _, names in os.walk(folder):
        for name in sorted(names):
            if name != MANIFEST and not name.endswith(OWN_FILES) and not name.startswith("."):
                return Path(path, name)
    return None


def check_not_read(path: Path, *read: Path, data: Path | None = None) -> None:
    """Refuse an output that would replace an input of a command; nothing is written into the folder `data`, whose files
    are read by name. Raises StoreError."""
    with suppress(OSError, RuntimeError):
        target = path.resolve()
        inputs = [given.resolve() for given in read]
        in_data = data is not None and data.is_dir() and data.resolve() in target.parents
        if in_data or any(target == given or target in given.parents for given in inputs):
            raise StoreError(f"{path} is, or holds, what is read\n  give another name")


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return values that distinguish what is at a path from what is put there later; None if there is nothing."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _put(new: Path, path: Path, old: Path) -> None:
    """Move a folder to a path, whatever other processes put there meanwhile; the one before is moved to `old`."""
    while True:
        try:
            with suppress(FileNotFoundError):
                os.rename(path, old)
            os.rename(new, path)
            return
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            # another process was faster
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink(missing_ok=True)
        finally:
            if old.exists() and not path.exists():
                os.rename(old, path)
