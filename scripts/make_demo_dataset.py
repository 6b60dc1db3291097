"""Write the demo's dataset, `examples/workspace/data/word-problems.{jsonl,csv,parquet}`: the same rows three times.

Every row is a short word problem made from a template, so that its label is computed together with its text and cannot be
wrong. The numbers come from a seeded generator: running the script again writes the same rows. Parquet needs polars; its
bytes may change with the version of polars, its rows do not.

    python scripts/make_demo_dataset.py
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

DATA = Path(__file__).resolve().parent.parent / "examples" / "workspace" / "data"
NAME = "word-problems"
ROWS_PER_KIND = 8
SEED = 20
COLUMNS = ("user_prompt", "ground_truth", "metadata")

PEOPLE = ("Mia", "Omar", "Lena", "Ivan", "Ruth", "Kofi", "Nora", "Sven", "Aiko", "Luis", "Dana", "Piet")
THINGS = ("apples", "marbles", "stamps", "books", "pencils", "shells", "coins", "cards", "stickers", "buttons")


class Kind(NamedTuple):
    """A family of problems: how numbers are drawn, how the text reads, and what the answer is."""

    name: str
    steps: int
    draw: Callable[[random.Random], tuple[int, ...]]
    texts: tuple[str, ...]
    solve: Callable[..., int]


def _below(chance: random.Random) -> tuple[int, int]:
    total = chance.randint(30, 95)
    return total, chance.randint(11, total - 6)


def _shares(chance: random.Random) -> tuple[int, int]:
    children, each = chance.randint(3, 9), chance.randint(4, 15)
    return children * each, children


def _bags(chance: random.Random) -> tuple[int, int, int]:
    return chance.randint(3, 9), chance.randint(5, 19), chance.randint(11, 48)


KINDS = (
    Kind(
        "sum",
        1,
        lambda chance: (chance.randint(12, 79), chance.randint(12, 79)),
        (
            "{who} has {0} {things} and buys {1} more. How many {things} does {who} have now?",
            "There are {0} {things} on the table and {1} {things} in a drawer. How many {things} are there in all?",
        ),
        lambda a, b: a + b,
    ),
    Kind(
        "difference",
        1,
        _below,
        (
            "{who} had {0} {things} and gave away {1} of them. How many {things} are left?",
            "A box held {0} {things}. {who} took out {1}. How many {things} are still in the box?",
        ),
        lambda a, b: a - b,
    ),
    Kind(
        "product",
        1,
        lambda chance: (chance.randint(3, 12), chance.randint(6, 24)),
        (
            "{who} packs {0} boxes with {1} {things} each. How many {things} is that?",
            "There are {0} shelves. Each shelf holds {1} {things}. How many {things} are on the shelves?",
        ),
        lambda a, b: a * b,
    ),
    Kind(
        "quotient",
        1,
        _shares,
        (
            "{who} shares {0} {things} equally among {1} children. How many {things} does each child get?",
            "{0} {things} are put into {1} equal piles. How many {things} are in each pile?",
        ),
        lambda a, b: a // b,
    ),
    Kind(
        "product-then-sum",
        2,
        _bags,
        (
            "{who} has {0} bags with {1} {things} each and {2} loose {things}. How many {things} does {who} have?",
            "{who} buys {0} packs of {1} {things} and then finds {2} more. How many {things} does {who} have?",
        ),
        lambda a, b, c: a * b + c,
    ),
    Kind(
        "comparison",
        1,
        lambda chance: (chance.randint(12, 79), chance.randint(6, 20)),
        (
            "{who} has {0} {things}. A friend has {1} more {things} than {who}. How many {things} does the friend have?",
            "A red box holds {0} {things}. A blue box holds {1} more than that. How many {things} does the blue box hold?",
        ),
        lambda a, b: a + b,
    ),
    Kind(
        "sum-then-difference",
        2,
        lambda chance: (chance.randint(20, 60), chance.randint(12, 40), chance.randint(5, 30)),
        (
            "{who} had {0} {things}, won {1} more and then lost {2}. How many {things} does {who} have now?",
            "A shop had {0} {things}. It got {1} more and sold {2}. How many {things} does the shop have?",
        ),
        lambda a, b, c: a + b - c,
    ),
    Kind(
        "sum-of-three",
        2,
        lambda chance: (chance.randint(10, 49), chance.randint(10, 49), chance.randint(10, 49)),
        (
            "{who} counted {0} {things} on Monday, {1} on Tuesday and {2} on Friday. How many {things} is that in all?",
            "Three friends have {0}, {1} and {2} {things}. How many {things} do they have together?",
        ),
        lambda a, b, c: a + b + c,
    ),
)


def rows() -> Iterator[dict[str, str]]:
    """The rows in dataset order, one kind after another in turn, each a mapping of `COLUMNS` to text."""
    chance = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    for number in range(ROWS_PER_KIND):
        for kind in KINDS:
            numbers = kind.draw(chance)
            text = kind.texts[number % len(kind.texts)]
            prompt = text.format(*numbers, who=chance.choice(PEOPLE), things=chance.choice(THINGS))
            metadata = json.dumps({"kind": kind.name, "steps": kind.steps})
            yield dict(zip(COLUMNS, (prompt, str(kind.solve(*numbers)), metadata), strict=True))


def main() -> None:
    """Write the three files."""
    table = list(rows())
    lines = [json.dumps({**row, "metadata": json.loads(row["metadata"])}, ensure_ascii=False) + "\n" for row in table]
    sheet = io.StringIO(newline="")
    writer = csv.DictWriter(sheet, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / f"{NAME}.jsonl").write_bytes("".join(lines).encode())
    (DATA / f"{NAME}.csv").write_bytes(sheet.getvalue().encode())
    pl.DataFrame(table).write_parquet(DATA / f"{NAME}.parquet")


if __name__ == "__main__":
    main()
