"""Everything tracecols raises on purpose.

::

    TracecolsError
    ├── SourceError          a trace archive cannot be understood or is damaged
    │   └── UnsupportedError the archive is sound but of a kind that is not read
    ├── StoreError           a .trace store is missing, damaged or of another version
    ├── SeverityError        a .severity cube is missing, damaged or of another version
    ├── AnalysisError        the events contradict each other in a way that stops the analysis
    ├── RuleError            there is no such rule or parameter, or a value does not fit
    ├── ClusterError         a cluster cannot be reached, its workers do not see what they need, or they are lost
    └── MissingExtraError    an optional package is needed (also an ImportError)

    ForeignCubeWarning       a cube of another tool holds something that was left out
    KernelCacheWarning       compiled kernels cannot be kept where they should be
    OpenClusterWarning       worker processes of this machine can be reached by its other users
"""

from __future__ import annotations


class TracecolsError(Exception):
    """The root of all errors raised on purpose; its text says what failed, where, and what to do.

    Parameters
    ----------
    text : str
        What failed and where in the first line, what to do in those below.
    in_shell : str, optional
        Advice for users of the command line, which replaces that with names of Python.
    """

    def __init__(self, text: str = "", *, in_shell: str = "") -> None:
        super().__init__(text)
        self.in_shell = in_shell

    @property
    def for_shell(self) -> str:
        """The text as the command line prints it."""
        text = str(self)
        return f"{text.partition(chr(10))[0]}\n  {self.in_shell}" if self.in_shell else text


class SourceError(TracecolsError):
    """A trace archive cannot be read: nonsense, truncated, inconsistent."""


class UnsupportedError(SourceError):
    """An archive of a kind that is not read (SIONlib container, compressed, newer trace format)."""


class StoreError(TracecolsError):
    """A store cannot be opened or written."""


class SeverityError(TracecolsError):
    """A severity cube cannot be opened, written or asked for what it does not hold."""


class AnalysisError(TracecolsError):
    """An analysis is impossible: its parameters are invalid, or the events of the trace contradict each other."""


class ExportError(TracecolsError):
    """An export cannot be made."""


class RuleError(TracecolsError):
    """A rule or one of its parameters does not exist, or a value is invalid."""


class ClusterError(TracecolsError):
    """A cluster cannot be used: it does not respond, or its workers do not see the same folders, have another
    tracecols, or are lost."""


class MissingExtraError(TracecolsError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}'\n  install it with: pip install 'tracecols[{extra}]'"
        )
        self._given = package, extra, purpose

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        # otherwise unpickling would pass the text as the only argument
        return type(self), self._given


class ForeignCubeWarning(UserWarning):
    """A cube of another tool holds something that a severity cube cannot; it was left out."""


class KernelCacheWarning(UserWarning):
    """No other folder is writable, so compiled kernels are kept in a private temporary folder, or nowhere."""


class OpenClusterWarning(UserWarning):
    """Worker processes of this machine have no certificates, so its other users can reach them."""
