"""The agent's tool: arithmetic on text that a model wrote, so nothing in it is trusted.

The text is parsed, never evaluated: only numbers, the four operations, signs and parentheses are understood. Without powers
and with a short text, a calculation cannot grow out of hand. Results are exact; a fraction is rounded only when it is written.
"""

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

LONGEST = 60
LARGEST = 10**15
DECIMALS = 4
# No exponent: `Fraction("1e999999999")` would fill the memory.
DIGITS = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?")

BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
UNARY: dict[type[ast.unaryop], Callable[[Fraction], Fraction]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


class CalculatorError(ValueError):
    """The text is not a calculation. The message is meant for the model that wrote it."""


def calculate(expression: str) -> Fraction:
    """The exact value of `expression`. Raises CalculatorError."""
    if len(expression) > LONGEST:
        raise CalculatorError(f"an expression has at most {LONGEST} characters")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except ZeroDivisionError:
        raise CalculatorError("division by zero") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, CalculatorError):
            raise
        raise CalculatorError("not an arithmetic expression") from None
    if abs(value) > LARGEST:
        raise CalculatorError("the result is too large")
    return value


def written(value: Fraction) -> str:
    """`value` as people write it: a whole number, or a decimal fraction of at most four places."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.{DECIMALS}f}".rstrip("0").rstrip(".")


def number(text: str) -> Fraction | None:
    """The number that `text` spells in digits, exactly; None when it spells none."""
    return Fraction(text.strip()) if DIGITS.fullmatch(text.strip()) else None


def _value(node: ast.expr) -> Fraction:
    match node:
        # `type` and not `isinstance`: True is an int, and no number.
        case ast.Constant(value=number) if type(number) is int:
            return Fraction(number)
        case ast.Constant(value=number) if type(number) is float and number < float("inf"):
            return Fraction(str(number))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in BINARY:
            return BINARY[type(operation)](_value(left), _value(right))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in UNARY:
            return UNARY[type(sign)](_value(operand))
    raise CalculatorError("only numbers, + - * / and parentheses are understood")
