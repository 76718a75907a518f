"""Every edge case of the Messages contract, and every fault that people met, has a test that says its number.

A test claims a number in its name or its docstring: `test_15_…`, "Case 15", "cases 60 to 69", "B72". So a case that has
lost its test is missed, and whoever reads a case finds the test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from docs.pages import ROOT

CASES = range(1, 96)
"""The edge cases of the contract between a client of the Messages API and this gateway, by number."""
FAULTS = (
    *(52, 53, 54, 55, 56, 57, 58, 59, 62, 63, 64, 65, 67, 70),  # framing, buffering, keep-alive
    *(71, 72, 73, 74, 75, 78, 79, 80, 81, 82, 84, 85, 86, 88, 89, 91, 92, 93, 95),  # translation
)
"""Faults that people met in gateways of this kind, B52 and so on, as far as they are faults of the translation."""
ELSEWHERE = {
    "case 90": "tests/clients/test_clients.py",  # every client that people use, at once and after a wait
    "B57": "tests/clients/test_clients.py",
    "B58": "tests/clients/test_clients.py",
}
"""Proved by more than one test can say: by all tests of a file."""

_CASES = re.compile(r"\bcases? (\d+(?:(?:, and |, | and | to )\d+)*)", re.IGNORECASE)
_FAULT = re.compile(r"\bB(\d{2,3})\b")
_NAMED = re.compile(r"^test_(\d+)_")


def every_test() -> Iterator[tuple[str, str]]:
    """The name of every test function, and what it says of itself."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                yield node.name, ast.get_docstring(node) or ""


def claims(name: str, docstring: str) -> set[str]:
    """What a test says that it proves: "case 15", "B72"."""
    found = {f"case {number}" for number in _NAMED.findall(name)}
    for text in (name.replace("_", " "), docstring):
        for numbers in _CASES.findall(text):
            found |= {f"case {number}" for number in _numbers(numbers)}
    return found | {f"B{number}" for number in _FAULT.findall(docstring)}


def _numbers(text: str) -> set[int]:
    """`"1, 2 and 5 to 7"` → 1, 2, 5, 6, 7."""
    numbers: set[int] = set()
    for part in re.split(r", and |, | and ", text):
        first, _, last = part.partition(" to ")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


@cache
def claimed() -> frozenset[str]:
    return frozenset().union(*(claims(name, docstring) for name, docstring in every_test()))


@pytest.mark.parametrize("wanted", [*(f"case {number}" for number in CASES), *(f"B{number}" for number in FAULTS)])
def test_every_case_has_a_test_that_says_so(wanted: str) -> None:
    assert wanted in claimed() or (ROOT / ELSEWHERE.get(wanted, "no such file")).is_file()


def test_what_is_proved_elsewhere_is_not_also_claimed_here() -> None:
    assert not ELSEWHERE.keys() & claimed()


@pytest.mark.parametrize(
    ("name", "docstring", "expected"),
    [
        ("test_it", "Edge cases 80, 81: and so on.", {"case 80", "case 81"}),
        ("test_it", "Case 43, and 45: so it is.", {"case 43", "case 45"}),
        ("test_it", "B72, case 15.", {"B72", "case 15"}),
        ("test_cases_1_to_3_are_one", "", {"case 1", "case 2", "case 3"}),
        ("test_89_is_left", "Cases 60 to 62 and 70.", {"case 89", "case 60", "case 61", "case 62", "case 70"}),
        ("test_in_any_case", "In case of 5.", set()),
    ],
)
def test_a_claim_is_read(name: str, docstring: str, expected: set[str]) -> None:
    assert claims(name, docstring) == expected
