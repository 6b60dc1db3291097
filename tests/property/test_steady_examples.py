"""Where builds must not differ by chance, property tests draw the same examples in every process (`tests/conftest.py`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONSTANTS = "\n".join(f"CONSTANT_{number} = {-7_000_003 * number}, 'constant {number}'" for number in range(300))
PROGRAM = """
import sys
import tests.conftest
if sys.argv[1] == "more":
    import constants
from hypothesis import given, strategies as st

@given(st.integers(), st.text())
def draw(number, text):
    print(number, ascii(text))

draw()
"""


def drawn(place: Path, profile: str, modules: str, seed: str) -> list[str]:
    """The examples that a process of that profile draws, with or without one more of our modules."""
    (place / "constants.py").write_text(CONSTANTS)
    variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{place}", "HYPOTHESIS_PROFILE": profile, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", PROGRAM, modules]
    # Its directory is its own: what Hypothesis remembers of other runs is elsewhere.
    done = subprocess.run(command, env=os.environ | variables, cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("profile", ["steady", "ci"])
def test_what_is_imported_and_how_strings_hash_change_no_example(tmp_path: Path, profile: str) -> None:
    """Whichever tests ran before in the same process, and whatever they imported, a test has the examples it had elsewhere."""
    examples = drawn(tmp_path, profile, "few", "1")
    assert len(set(examples)) > 30
    assert drawn(tmp_path, profile, "more", "2") == examples
