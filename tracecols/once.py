"""Attributes that are computed when they are first asked for, and only once, however many threads ask."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801
    """Compute an attribute when it is first asked for, and keep it: a decorator like `functools.cached_property`.

    While one thread computes it the others wait for it. That of `functools` lets them compute it as well from Python
    3.12 on; before, it let only one thread at a time compute the attribute, whichever object it belonged to. Every
    attribute of every object has a lock of its own here, so that attributes may need each other as long as none needs
    itself.

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
        # what has been computed is in the object's dictionary, where Python looks before it comes here
        found = instance.__dict__
        with found.setdefault(self._lock_name, RLock()):
            if self._name not in found:
                found[self._name] = self._function(instance)
            value: T = found[self._name]
            return value
