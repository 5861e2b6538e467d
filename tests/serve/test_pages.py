"""Pages of answers: no page exceeds the limit, no row is lost between pages, and names stay text."""

import json
import random

import pytest
from conftest import slow

from tracecols.errors import TracecolsError
from tracecols.serve.pages import MOST, Listing, count_tokens, page, shorter, shorter_text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("wait", 1),
        ("waiting", 2),
        ("MPI_Recv", 4),
        ("123456", 2),
        ("a b", 3),
        ("[1,2]", 5),
        ("é", 2),
        ("字", 3),
    ],
)
def test_count_tokens__by_kind_of_character(text, tokens):
    assert count_tokens(text) == tokens


def all_pages(rows, facts=None):
    """Return the rows of all pages, each requested as the page before it says, and the number of pages."""
    found, first, n_pages = [], 1, 0
    while True:
        text = page(facts or {}, Listing("rows", rows[first - 1 :], {}, first - 1, len(rows)))
        assert count_tokens(text) <= MOST
        answer = json.loads(text)
        found += answer["rows"]
        n_pages += 1
        assert answer["shown"] == f"rows {first:,} to {len(found):,} of {len(rows):,}"
        if not answer["more"]:
            return found, n_pages
        assert answer["more"] == f"first={len(found) + 1} for the next rows; "
        first = len(found) + 1


def test_page__the_pages_hold_each_row_once():
    rows = [{"path": f"main/solve/step_{i}", "seconds": i / 8, "n": i, "nothing": None} for i in range(500)]
    found, n_pages = all_pages(rows)
    assert found == [list(row.values()) for row in rows]
    assert 3 < n_pages < 20


@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_page__is_never_too_long(seed):
    draw = random.Random(seed)
    letters = "ab/_:<>\\\"'\u202e\x1b\n\t字é 0123456789[]{}"

    def text():
        return "".join(draw.choices(letters, k=draw.choice([3, 30, 300, 6_000])))

    rows = [{"name": text(), "value": draw.random(), "list": [text() for _ in range(draw.randrange(20))]} for _ in range(12)]  # fmt: skip
    facts = {text(): draw.choice([text(), [text()] * 20, {text(): text() for _ in range(20)}]) for _ in range(9)}
    found, _ = all_pages(rows, facts)
    assert len(found) == len(rows)


def test_page__of_too_many_columns_says_so():
    with pytest.raises(TracecolsError, match=r"a row has 5,000 columns.*\n.*fewer columns"):
        page({}, Listing("result", [{f"column_{i}": i for i in range(5_000)}]))


def test_page__without_rows():
    answer = json.loads(page({"a": 1}, Listing("rows", [], total=0), "ask for less"))
    assert (answer["rows"], answer["shown"], answer["more"]) == ([], "no rows of 0", "ask for less")


def test_shorter__numbers():
    given = [1.0, 0.1 + 0.2, 123456789012.0, 1234567890123, float("nan"), float("inf"), True, None, 1e300]
    assert shorter(given, 100, 100) == [1, 0.3, 123456789012, 1234567890123, None, None, True, None, 1e300]


def test_shorter__says_what_is_left_out():
    assert shorter(list(range(9)), 10, 3) == [0, 1, 2, "... 6 more"]
    assert shorter({str(i): i for i in range(5)}, 10, 2) == {"0": 0, "1": 1, "...": "3 more"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("main/" + "solve/" * 50 + "MPI_Recv", "main/.../solve/solve/solve/MPI_Recv"),
        ("x" * 100, "x" * 16 + "..." + "x" * 18),
        ("two\nlines\x1b[2J", "two\\nlines\\u001b[2J"),
        ("\u202eevil", "\\u202eevil"),
        ("others wait for it (on 5 call paths)", "others wait for it (on 5 call paths)"),
    ],
)
def test_shorter_text__keeps_what_matters(text, shown):
    found = shorter_text(text, 37)
    assert len(found) <= 37
    assert found == shown or (text.startswith("x") and found.startswith("x" * 10) and "..." in found)
