# Recipes of the project. `python3 scripts/bootstrap.py RECIPE` sets everything up first; afterwards `.venv/bin/just RECIPE` does.

set positional-arguments
set windows-shell := ["bash", "-cu"]

export PATH := justfile_directory() / ".venv/bin" + ":" + env("PATH")
export UV_PYTHON_DOWNLOADS := "never"

# How many tests run side by side: a number, or `auto` for one a core.
workers := "auto"
pytest := "python -m pytest --numprocesses " + workers + " --dist worksteal"

# List the recipes.
default:
    @just --list --unsorted

# Watch an evaluation run to its metrics: recorded model calls, no key, no network. Flags go to `osmosis eval run`.
[working-directory: "examples/workspace"]
demo *flags:
    @osmosis eval run configs/eval/word-problems.toml \
        --dataset-file data/word-problems.jsonl --replay cassettes/word-problems.jsonl --yes "$@"

# The tests to run before every commit. Arguments go to pytest.
test *arguments:
    {{ pytest }} -m "not slow and not interop and not browser" "$@"

# What `test` leaves out: the slow tests, those against other packages, and those in a browser. Arguments go to pytest.
test-rest *arguments:
    python scripts/browser_env.py
    python scripts/docs_env.py
    {{ pytest }} -m "slow or interop or browser" "$@"

# Real Harbor trials in real sandboxes; needs root on Debian, and installs what it needs.
test-sandboxes *arguments:
    python scripts/harbor_env.py
    .venv-harbor/bin/python -m pytest tests/harbor "$@"

# Every test.
test-all: test test-rest test-sandboxes

# Which lines and branches the tests reach.
coverage:
    coverage erase
    coverage run -m pytest --numprocesses {{ workers }} --dist worksteal -m "not slow and not interop and not browser"
    coverage combine --quiet
    coverage report

# Everything that is checked without running the product. All checks run, also after one has failed.
check:
    @failed=""; \
    for recipe in lint types imports purity documents lock-check; do just "$recipe" || failed="$failed $recipe"; done; \
    if [ -n "$failed" ]; then echo "failed:$failed" >&2; exit 1; fi

# Style and likely bugs.
lint:
    ruff check .
    ruff format --check .

# Static types.
types:
    mypy

# Which room may import which (contracts in pyproject.toml).
imports:
    lint-imports

# osmosis.pure has no effects; osmosis_ai only re-exports.
purity:
    python scripts/check_purity.py

# Links, the index of decisions, and that CI runs what the README promises.
documents:
    python scripts/check_documents.py

# Draw the documentation site into site/. Every warning is an error. Another directory may be named.
site *directory:
    python scripts/docs_env.py
    python -m scripts.build_site "$@"

# Make the pictures of the documents anew from a real run of the demo.
pictures *directory:
    python scripts/browser_env.py
    python -m scripts.make_pictures "$@"

# Fix what can be fixed by machine.
format:
    ruff check --fix .
    ruff format .

# The documents, checked, and the changelog of the next release as it stands.
docs: documents
    towncrier build --draft --version "$(python -c 'import osmosis; print(osmosis.__version__)')"

# Write what follows from the code: golden files, JSON Schemas, reference. Read every byte of the difference before committing.
golden:
    python -m scripts.generate_schemas
    python -m pytest tests/golden tests/integration/test_cli_real_runs.py --write-golden
    python -m scripts.generate_reference
    git diff --stat -- tests/golden docs

# Make the pins in requirements/ follow pyproject.toml; `just lock --upgrade` takes the newest versions that fit.
lock *flags:
    python scripts/lock.py write "$@"

# Fail when the pins and pyproject.toml disagree.
lock-check:
    python scripts/lock.py check

# Record the demo's cassette again from the small model (builds an inference engine: takes minutes).
record-demo *flags:
    python scripts/record_demo.py "$@"

# Measure beside other packages: `just bench runs data`. Flags go to the benchmarks (`--rounds`, `--large`, `--record`).
bench *arguments:
    python -m benchmarks "$@"

# Remove caches and build products; `.venv` and run directories stay.
clean:
    rm -rf build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
    find osmosis osmosis_ai scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
