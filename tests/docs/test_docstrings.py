"""Public functions and methods document their parameters in the style of numpydoc: each by name, with its meaning."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap

import pytest

MODULES = (
    "tracecols", "tracecols.frames.catalog", "tracecols.conversion", "tracecols.testing", "tracecols.trace", "tracecols.given.parameters", "tracecols.patterns.base", "tracecols.patterns.matches", "tracecols.patterns.found_by",
    "tracecols.patterns.plugins", "tracecols.rules", "tracecols.rules.base", "tracecols.severity.cube", "tracecols.severity.comparison",
    "tracecols.severity.axes", "tracecols.export.cube_read", "tracecols.converters.base",
)  # fmt: skip
"""Modules whose public functions, constructors and methods are checked."""

SECTIONS = ("Parameters", "Attributes", "Other Parameters")


@dataclasses.dataclass
class Method:
    """A method: its first argument is bound, whatever its name."""

    function: object
    owner: type

    @property
    def __doc__(self):
        return self.function.__doc__


def public(module):
    """Yield qualified name and object of the public functions, classes and methods that a module declares or
    exports."""
    exported = getattr(module, "__all__", [])
    for name in dict.fromkeys([*exported, *vars(module)]):
        thing = getattr(module, name)
        if name.startswith("_") or not (inspect.isfunction(thing) or inspect.isclass(thing)):
            continue
        if thing.__module__ != module.__name__ and name not in exported:
            continue
        yield name, thing
        if inspect.isclass(thing):
            # members inherited from classes of tracecols belong to the interface, too
            for of in thing.__mro__:
                if of.__module__.startswith("tracecols"):
                    for method, found in vars(of).items():
                        function = getattr(found, "__func__", found)
                        if not method.startswith("_") and inspect.isfunction(function):
                            yield (
                                f"{name}.{method}",
                                found if isinstance(found, staticmethod) else Method(function, thing),
                            )


def parameters(thing) -> list[str]:
    """Return the names of the parameters of a function, or of the constructor of a class."""
    if inspect.isclass(thing):
        if issubclass(thing, BaseException) or getattr(thing, "_is_protocol", False):
            return []
        if dataclasses.is_dataclass(thing):
            return [f.name for f in dataclasses.fields(thing) if f.init and not f.name.startswith("_")]
        if "__init__" not in vars(thing):
            return []
        thing = vars(thing)["__init__"]
    given = list(inspect.signature(thing.function if isinstance(thing, Method) else thing).parameters)
    is_method = isinstance(thing, Method) or given[:1] == ["self"]
    return [name for name in given[is_method:] if not name.startswith("_")]


def documented(thing) -> set[str]:
    """Return the names in the sections on parameters of a docstring, and those that a class, or one that it inherits
    from, describes for all methods in a section "Other Parameters"."""
    names = named_in(thing.__doc__, SECTIONS)
    for of in thing.owner.__mro__ if isinstance(thing, Method) else ():
        names |= named_in(of.__doc__, SECTIONS[2:])
    return names


def named_in(doc: str | None, sections) -> set[str]:
    """Return the names in some sections of a docstring."""
    names: set[str] = set()
    text = inspect.cleandoc(doc or "")
    for title, body in re.findall(
        r"^(\w[\w ]*)\n-{3,}\n(.*?)(?=^\w[\w ]*\n-{3,}\n|\Z)", text, re.MULTILINE | re.DOTALL
    ):
        if title in sections:
            for line in re.findall(r"^(\S.*)$", body, re.MULTILINE):
                names |= {name.strip(" *") for name in line.split(" : ")[0].split(",")}
    return names


@pytest.mark.parametrize("name", sorted(MODULES))
def test_parameters__of_public_functions_are_documented(name):
    missing = []
    for of, thing in public(importlib.import_module(name)):
        lacking = [p for p in parameters(thing) if p not in documented(thing)]
        if lacking:
            missing.append(f"{name}.{of}: {', '.join(lacking)}")
    assert not missing, "\n".join(missing)


def raised(thing) -> set[str]:
    """Return the names of the errors that the body of a function raises."""
    function = getattr(thing, "function", getattr(thing, "__func__", thing))
    if inspect.isclass(function):
        function = vars(function).get("__post_init__" if dataclasses.is_dataclass(function) else "__init__")
    function = inspect.unwrap(function) if function is not None else None
    if not inspect.isfunction(function) or not function.__module__.startswith("tracecols"):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = {node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)}
    # errors in lower case are parameters, given by the caller
    return {of.id for of in found if isinstance(of, ast.Name) and of.id[0].isupper()}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_errors__that_public_functions_raise_are_documented(name):
    missing = []
    for of, thing in public(importlib.import_module(name)):
        _, _, section = inspect.cleandoc(thing.__doc__ or "").partition("Raises\n------\n")
        lacking = [error for error in sorted(raised(thing)) if not re.search(rf"^.*\b{error}\b", section, re.MULTILINE)]
        if lacking:
            missing.append(f"{name}.{of}: {', '.join(lacking)}")
    assert not missing, "\n".join(missing)
