"""Calculations, as trees whose value is known and as the text of them."""

from __future__ import annotations

import operator
from fractions import Fraction

from hypothesis import strategies as st

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

# A calculation is its text and its exact value.
_numbers = st.integers(0, 99).map(lambda number: (str(number), Fraction(number)))


def _combine(parts):
    (left, left_value), sign, (right, right_value) = parts
    return f"({left}) {sign} ({right})", OPERATIONS[sign](left_value, right_value)


def _defined(parts) -> bool:
    return not (parts[1] == "/" and parts[2][1] == 0)


calculations = st.recursive(
    _numbers,
    lambda inner: st.tuples(inner, st.sampled_from(sorted(OPERATIONS)), inner).filter(_defined).map(_combine),
    max_leaves=5,
)
hostile_texts = st.text(
    st.sampled_from("0123456789+-*/().eEj_ \"'[]{},:=<>%@!~&|^\n\t\0ifelsalmbdx") | st.characters(), max_size=80
)
