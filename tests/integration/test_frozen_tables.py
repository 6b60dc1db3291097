"""The frozen tables of the bridge against the installed LiteLLM: the code does not change with it, but somebody must notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis.pure.request_policy import is_control_field

ROOT = Path(__file__).resolve().parent.parent.parent

QUESTION = """
import json
from litellm.types.router import GenericLiteLLMParams
from litellm.types.utils import all_litellm_params
print(json.dumps(sorted({*all_litellm_params, *GenericLiteLLMParams.model_fields})))
"""


@pytest.mark.slow
def test_no_control_field_of_litellm_is_missing():
    """Every call and router parameter of the installed LiteLLM is refused, but for `metadata`, which E32 rules."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    asked = subprocess.run(
        [sys.executable, "-c", QUESTION], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    names = set(json.loads(asked.stdout.splitlines()[-1]))
    assert len(names) > 300
    assert sorted(name for name in names - {"metadata"} if not is_control_field(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["generate_provider_table.py", "generate_model_tables.py"])
def test_the_tables_are_the_generated_ones(recipe):
    """The committed tables are what the recipes make of the installed LiteLLM, whatever variables are set."""
    script = ROOT / "scripts" / recipe
    environment = {**os.environ, "OPENAI_BASE_URL": "http://elsewhere.test", "GROQ_API_BASE": "http://elsewhere.test"}
    checked = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    assert (checked.returncode, checked.stderr) == (0, "")
