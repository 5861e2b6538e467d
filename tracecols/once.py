"""Values that are computed on first access, and kept: attributes, and recently used values; also with several
threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class once(Generic[T]):  # noqa: N801
    """Compute an attribute on first access, and cache it: a decorator like `functools.cached_property`.

    While one thread computes the attribute, the others wait for it. From Python 3.12 on, `functools.cached_property`
    lets several threads compute it; earlier versions let only one thread at a time compute it, for all objects. Here
    every attribute of every object has a lock of its own, so that attributes may depend on each other as long as there
    is no cycle.

    Examples
    --------
    >>> class Square:
    ...     def __init__(self, side):
    ...         self.side = side
    ...
    ...     @once
    ...     def area(self):
    ...         return self.side**2
    >>> Square(3).area
    9
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name, self._lock_name = name, f"_lock_of_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        # computed values are in the object's dictionary, which Python searches first
        found = instance.__dict__
        with found.setdefault(self._lock_name, RLock()):
            if self._name not in found:
                found[self._name] = self._function(instance)
            value: T = found[self._name]
            # not needed any more: an object with a lock can be neither copied nor pickled
            found.pop(self._lock_name, None)
            return value


class Recent(Generic[K, T]):
    """Values by key that are computed on first access; the most recently used ones are kept, up to a total size, by
    default their number."""

    def __init__(self, most: int, size: Callable[[T], int] = lambda _: 1) -> None:
        self._most, self._size = most, size
        self._kept: OrderedDict[K, T] = OrderedDict()
        self._n, self._lock = 0, Lock()

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K, make: Callable[[], T]) -> T:
        """Return a value, which is made if it is not kept; several threads may make it at the same time."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._n += self._size(made)
            while self._n > self._most and len(self._kept) > 1:
                self._n -= self._size(self._kept.popitem(last=False)[1])
        return made


class Kept(Generic[K, T]):
    """Values by key that are computed on first access, and all kept; while one thread computes a value, the others
    wait."""

    def __init__(self) -> None:
        self._kept: dict[K, T] = {}
        self._lock = Lock()

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K, make: Callable[[], T]) -> T:
        """Return a value, which is made if it is not kept."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return self._kept[key]
