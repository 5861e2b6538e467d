"""Attributes that are computed on first access, and only once, also with several threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

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
            return value
