"""Bundles as text: the generated module, entry points, metadata, keys (rollout_protocol 15)."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.bundle import (
    BundleReferences,
    bundle_key,
    bundle_scripts,
    main_module,
    requirement_extras,
    requirement_name,
    requirements_of,
    script_names,
    with_requirements,
    with_scripts,
)
from osmosis.pure.sandbox_python import SandboxPython, constraints, read_probe, site_requirements

BOTH = BundleReferences(workflow="my.work:Flow", grader="my.work:Outer.Grader", grader_config="my.work:config")


def test_the_generated_module_calls_the_runner():
    """Two functions without arguments; nested classes are found, a missing configuration is None."""
    tree = ast.parse(main_module(BOTH))
    functions = {node.name: ast.unparse(node.body[-1]) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions["agent_main"] == "run_agent_main(_load('my.work', 'Flow'), None)"
    assert functions["grader_main"] == "run_grader_main(_load('my.work', 'Outer.Grader'), _load('my.work', 'config'))"
    assert "osmosis_ai.rollout.container.runner" in ast.unparse(tree)


def test_a_grader_alone_makes_a_bundle():
    """For native agents."""
    references = BundleReferences(grader="m:G")
    assert b"agent_main" not in main_module(references)
    assert script_names("my-pkg", references) == {"my_pkg-grade": "my-pkg.bundle_main:grader_main"}


@pytest.mark.parametrize("reference", ["module", "module:", ":x", "m:x; import os", "m:'", "1m:x"])
def test_references_are_checked_before_they_become_code(reference):
    """Nothing but dotted names gets into the generated module."""
    with pytest.raises(ValueError, match="module:attribute"):
        BundleReferences(workflow=reference)
    with pytest.raises(ValueError, match="workflow or a grader"):
        BundleReferences()


def test_scripts_join_those_that_are_there():
    """And are found again."""
    text = with_scripts("[console_scripts]\nmine = my:main\n\n[other.group]\na = b:c\n", script_names("my", BOTH))
    assert bundle_scripts(text) == ("my-agent", "my-grade", "my")
    assert "mine = my:main" in text
    assert "[other.group]\na = b:c" in text
    assert bundle_scripts("[console_scripts]\nmine = my:main\n") == (None, None, None)


METADATA = """\
Metadata-Version: 2.1
Name: my
Requires-Dist: Some_Package[x]>=1
Requires-Dist: other; python_version < "4"
Requires-Dist: gated; extra == "dev"
Requires-Dist: gated2 ; ("dev" == extra)
Requires-Dist: folded
 >=2

Requires-Dist: in the description
"""


def test_requirements_without_those_of_extras():
    """Folded lines are one, other markers stay, the description is not looked at."""
    assert requirements_of(METADATA) == ("Some_Package[x]>=1", 'other; python_version < "4"', "folded >=2")


def test_given_requirements_take_the_place_of_their_namesakes():
    """Whatever the spelling of the name."""
    changed = with_requirements(METADATA, ["some-package==3", "new"])
    assert requirements_of(changed) == ('other; python_version < "4"', "folded >=2", "some-package==3", "new")
    assert changed.endswith("\nRequires-Dist: in the description\n")


def test_names_and_extras_of_requirements():
    """As PEP 508 and PEP 503 have them."""
    assert requirement_name(" Osmosis_AI [server, harbor] >=1 ") == "osmosis-ai"
    assert requirement_extras("osmosis-ai[server, harbor]>=1") == ("server", "harbor")
    assert requirement_extras("osmosis-ai") == ()
    with pytest.raises(ValueError, match="not a requirement"):
        requirement_name("@ file")


FILES = st.dictionaries(st.text("ab/", min_size=1, max_size=4), st.binary(max_size=4), max_size=4)


@given(FILES, FILES, st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_equal_keys_mean_equal_content(files, others, settings, other_settings):
    """Names, bytes and settings cannot run into each other; the order of files does not count."""
    equal = (files, settings) == (others, other_settings)
    assert (bundle_key(files.items(), settings) == bundle_key(others.items(), other_settings)) is equal
    assert bundle_key(reversed(list(files.items())), settings) == bundle_key(files.items(), settings)


# --- The Python of a sandbox -------------------------------------------------------------------------------------------------

SDK = (
    "cyclopts>=5", "httpx>=0.28", "msgspec>=0.20", "xxhash>=3", 'pydantic>=2; extra == "server"', 'fastapi; extra == "server"',
    'strands-agents[litellm]; extra == "strands"', 'osmosis-ai[server]; extra == "eval"',
)  # fmt: skip


def test_the_sandbox_gets_what_the_runner_needs_and_no_more():
    """No web framework, no harness; an integration only for those who asked for it."""
    bare = site_requirements(["osmosis-ai[server,harbor]>=0.3", "numpy"], SDK)
    assert bare == ("numpy", "httpx>=0.28", "msgspec>=0.20", "pydantic>=2", "xxhash>=3")
    assert "strands-agents[litellm]" in site_requirements(["osmosis-ai[strands]"], SDK)


def test_versions_are_those_of_the_rollouts_environment():
    """Except for the SDK itself, which comes as it is."""
    assert constraints({"numpy": "1.2", "osmosis-ai": "0.3.10", "a": "1"}) == "a==1\nnumpy==1.2\n"


def probe(**changes):
    """What a Python of Debian's says, with changes."""
    import json

    said = {"python": "/usr/bin/python3", "implementation": "cpython", "version": [3, 11], "machine": "x86_64"}
    return json.dumps({**said, "libc": ["glibc", "2.36"], "musl": False, **changes})


@pytest.mark.parametrize(
    ("changes", "platform"),
    [
        ({}, "x86_64-manylinux_2_28"),
        ({"libc": ["glibc", "2.17"]}, "x86_64-manylinux2014"),
        ({"machine": "arm64"}, "aarch64-manylinux_2_28"),
        ({"libc": ["", ""], "musl": True}, "x86_64-unknown-linux-musl"),
    ],
)
def test_the_platform_follows_from_the_probe(changes, platform):
    """The last line counts, whatever a sandbox's shell prints before it."""
    assert read_probe("motd\n" + probe(**changes)) == SandboxPython("/usr/bin/python3", (3, 11), platform)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "not understood"),
        ("{}", "not understood"),
        (probe(version=[3, 9]), "3.11 or later"),
        (probe(implementation="pypy"), "CPython"),
        (probe(machine="sparc"), "sparc"),
        (probe(libc=["glibc", "2.5"]), "2.17 or later"),
    ],
)
def test_a_python_that_will_not_do_is_told_why(output, said):
    """In words for a person."""
    with pytest.raises(ValueError, match=said):
        read_probe(output)
