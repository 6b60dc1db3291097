"""The demo's calculator: exact on calculations, deaf to anything else."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies.demo import calculations, hostile_texts

SOURCE = Path(__file__).parents[2] / "examples/workspace/rollouts/word-problems/calculator.py"
_spec = importlib.util.spec_from_file_location("demo_calculator", SOURCE)
assert _spec is not None
assert _spec.loader is not None
calculator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(calculator)


@given(calculations)
def test_a_calculation_has_its_exact_value(calculation):
    """What the tree of operations is worth, the calculator says, to the last digit."""
    text, value = calculation
    assume(len(text) <= calculator.LONGEST)
    assume(abs(value) <= calculator.LARGEST)
    assert calculator.calculate(text) == value


@given(hostile_texts)
def test_no_text_does_anything_but_calculate_or_be_refused(text):
    """Whatever a model writes, the answer is a bounded number or a CalculatorError."""
    try:
        value = calculator.calculate(text)
    except calculator.CalculatorError:
        return
    assert abs(value) <= calculator.LARGEST


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2 ** 99", "only numbers"),
        ("__import__('os')", "only numbers"),
        ("True + 1", "only numbers"),
        ("1j", "only numbers"),
        ("7 // 2", "only numbers"),
        ("1e999", "only numbers"),
        ("1e308 * 1e308", "too large"),
        ("1 / 0", "division by zero"),
        ("12 +", "not an arithmetic"),
        ("", "not an arithmetic"),
        ("1\0", "not an arithmetic"),
        ("(" * 30 + ")" * 30, "only numbers"),
        ("(" * 30, "not an arithmetic"),
        ("1+" * 40 + "1", "at most"),
    ],
)
def test_a_refusal_names_its_reason(text, reason):
    """The model that wrote the text reads why it is no calculation."""
    with pytest.raises(calculator.CalculatorError, match=reason):
        calculator.calculate(text)


@given(st.integers(-(10**9), 10**9), st.sampled_from([1, 10, 100, 1000, 10000]))
def test_a_written_result_reads_back_as_the_same_number(numerator, denominator):
    """A result of at most four decimals survives being written and read."""
    value = Fraction(numerator, denominator)
    assert calculator.number(calculator.written(value)) == value


@given(st.text(max_size=20))
def test_number_reads_only_digits(text):
    """No exponent, no fraction bar, no `nan`: what is not written in digits is no number."""
    if (value := calculator.number(text)) is not None:
        assert Fraction(text.strip()) == value
        assert set(text.strip()) <= set("+-.0123456789")


@pytest.mark.parametrize("text", ["1e999999999", "1/3", "nan", "inf", "", "12 apples", "--1"])
def test_what_is_no_plain_number(text):
    """Texts that other readers take for numbers, and ones that cost memory, are none."""
    assert calculator.number(text) is None
