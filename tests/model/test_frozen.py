"""Classes of values do what frozen dataclasses do, whose methods they replace."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from tracecols.frozen import frozen


@frozen
class Ours:
    x: int
    y: str = "a"
    z: list[int] = field(default_factory=list)
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", len(self.z))


@dataclass(frozen=True)
class Theirs:
    x: int
    y: str = "a"
    z: list[int] = field(default_factory=list)
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", len(self.z))


GIVEN: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((1,), {}),
    ((1, "b", [2]), {}),
    ((), {"x": 1, "z": [3, 4]}),
    ((1,), {"y": "c"}),
)

WRONG: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((1, "b", [], 4), {}),
    ((1,), {"x": 2}),
    ((1,), {"w": 2}),
    ((), {"y": "b"}),
    ((1,), {"n": 2}),
)


@pytest.mark.parametrize(("given", "named"), GIVEN)
def test_frozen__has_the_fields_and_words_of_a_frozen_dataclass(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = Ours(*given, **named), Theirs(*given, **named)
    assert asdict(ours) == asdict(theirs)
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert asdict(replace(ours, x=5)) == asdict(replace(theirs, x=5))
    assert ours == Ours(*given, **named) == copy.copy(ours) == pickle.loads(pickle.dumps(ours))
    assert ours != theirs
    assert ours != replace(ours, x=5)


@pytest.mark.parametrize(("given", "named"), WRONG)
def test_frozen__refuses_what_a_frozen_dataclass_refuses(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    for of in (Ours, Theirs):
        with pytest.raises(TypeError):
            of(*given, **named)


def test_frozen__does_not_change() -> None:
    ours = Ours(1)
    with pytest.raises(FrozenInstanceError):
        ours.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del ours.x
    assert ours == Ours(1)


def test_frozen__does_not_share_what_is_made_for_each() -> None:
    assert Ours(1).z is not Ours(1).z


def test_frozen__is_hashed_by_its_fields_or_by_itself() -> None:
    @frozen
    class Equal:
        x: int

    @frozen(eq=False)
    class Itself:
        x: int

    assert len({Equal(1), Equal(1), Equal(2)}) == 2
    assert len({Itself(1), Itself(1)}) == 2
    assert Itself(1) != Itself(1)


def test_frozen__keeps_methods_of_the_class_and_fields_of_the_class_above() -> None:
    @frozen
    class Above:
        x: int

        def __repr__(self) -> str:
            return "mine"

    @frozen
    class Below(Above):
        y: int = 2

    assert repr(Above(1)) == "mine"
    assert repr(Below(1)).endswith("Below(x=1, y=2)")
    match Below(1):
        case Below(x, y):
            assert (x, y) == (1, 2)


def test_frozen__says_its_parameters() -> None:
    # the standard one writes None as what is returned
    expected = inspect.signature(Theirs).replace(return_annotation=inspect.Signature.empty)
    assert [(p.name, p.annotation, p.kind) for p in inspect.signature(Ours).parameters.values()] == [
        (p.name, p.annotation, p.kind) for p in expected.parameters.values()
    ]
    assert inspect.signature(Ours).parameters["y"].default == "a"
    assert inspect.signature(Ours).parameters["x"].default is inspect.Parameter.empty
