"""The functional core has no effects, and the checks that say so are not blind (ruling 29, issue must-show 3)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scripts.check_purity import ROOT, check_folder, core_violations, door_violations
from tests import purity_hook

PLANTED = {
    # files
    "open": "def f(p):\n    return open(p)",
    "open through a name": "def f(p):\n    read = open\n    return read(p)",
    "io.open": "import io\ndef f(p):\n    return io.open(p)",
    "open from io": "from io import open as read\n",
    "FileIO": "from io import FileIO\n",
    "Path": "from pathlib import Path\n",
    "pathlib.Path": "import pathlib as p\ndef f():\n    return p.Path('x')",
    "read_text of an argument": "def f(path):\n    return path.read_text()",
    "write_bytes of an argument": "def f(path):\n    path.write_bytes(b'')",
    "exists of an argument": "def f(path):\n    return path.exists()",
    "getattr of a method that reads": "def f(path):\n    return getattr(path, 'read_bytes')()",
    "tempfile": "import tempfile\n",
    "shutil": "from shutil import rmtree\n",
    "glob": "import glob\n",
    "polars reader": "import polars as pl\ndef f():\n    return pl.read_csv('x')",
    "polars scanner": "from polars import scan_parquet\n",
    "polars writer": "def f(frame):\n    frame.write_parquet('x')",
    "polars sink": "def f(frame):\n    frame.sink_csv('x')",
    # environment
    "os": "import os\n",
    "os.environ": "import os\ndef f():\n    return os.environ['HOME']",
    "os.environ in an uncalled function": "def f():\n    from os import environ as e\n    return e",
    "os.path": "import os.path as p\n",
    "getenv": "from os import getenv\n",
    "sys.argv": "import sys\ndef f():\n    return sys.argv",
    "sys.stdout": "from sys import stdout\n",
    "platform": "import platform\n",
    # clock
    "time": "import time\n",
    "time.time": "from time import time as now\n",
    "sleep": "import time as t\ndef f():\n    t.sleep(1)",
    "datetime.now": "from datetime import datetime\ndef f():\n    return datetime.now()",
    "datetime.now with a zone": "import datetime as d\ndef f():\n    return d.datetime.now(d.UTC)",
    "datetime.now uncalled": "from datetime import datetime\nclock = datetime.now\n",
    "datetime through an alias": "from datetime import datetime\nd = datetime\ndef f():\n    return d.now()",
    "datetime.utcnow": "from datetime import datetime as dt\ndef f():\n    return dt.utcnow()",
    "datetime.today": "from datetime import datetime\ndef f():\n    return datetime.today()",
    "date.today": "from datetime import date\ndef f():\n    return date.today()",
    "getattr now": "from datetime import datetime\ndef f():\n    return getattr(datetime, 'now')()",
    "local time zone": "from datetime import datetime\ndef f(s):\n    return datetime.fromtimestamp(s)",
    "local time zone of a time": "def f(t):\n    return t.astimezone()",
    # chance
    "random": "import random\n",
    "random.Random": "from random import Random\n",
    "secrets": "import secrets\n",
    "uuid4": "import uuid\ndef f():\n    return uuid.uuid4()",
    "uuid4 by name": "from uuid import uuid4\n",
    "uuid1": "from uuid import uuid1 as new_id\n",
    "os.urandom": "from os import urandom\n",
    "hash": "def f(x):\n    return hash(x) % 10",
    "id": "def f(x):\n    return id(x)",
    "sampling without a seed": "def f(frame):\n    return frame.sample(10)",
    # network, processes, threads
    "socket": "import socket\n",
    "http": "from http.client import HTTPConnection\n",
    "urlopen": "from urllib.request import urlopen\n",
    "urllib.request": "import urllib.request\n",
    "httpx": "import httpx\n",
    "aiohttp": "import aiohttp\n",
    "subprocess": "import subprocess\n",
    "Popen": "from subprocess import Popen as start\n",
    "signal": "import signal\n",
    "threading": "import threading\n",
    "Thread": "from threading import Thread\n",
    "thread pool": "from concurrent.futures import ThreadPoolExecutor\n",
    "asyncio": "import asyncio\n",
    "coroutine": "async def f():\n    pass",
    "multiprocessing": "import multiprocessing\n",
    # output
    "logging": "import logging\n",
    "print": "def f():\n    print('x')",
    "print as a default": "def f(say=print):\n    say('x')",
    "input": "def f():\n    return input()",
    "warnings": "import warnings\n",
    # running code
    "eval": "def f(s):\n    return eval(s)",
    "exec": "def f(s):\n    exec(s)",
    "__import__": "def f():\n    return __import__('os')",
    "import_module": "from importlib import import_module\n",
    "builtins": "import builtins\n",
    "__builtins__": "def f():\n    return __builtins__",
    "__globals__": "def f(g):\n    return g.__globals__",
    # the other layer, and frameworks of the other layer
    "the shell": "import osmosis.shell\n",
    "the shell by name": "from osmosis import shell\n",
    "a room of the shell": "from osmosis.shell.evaluation import run\n",
    "a relative import of the shell": "from ..shell import evaluation\n",
    "a shell import for types only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import osmosis.shell.cli as c",
    "the documented names": "import osmosis_ai\n",
    "pydantic": "from pydantic import BaseModel\n",
    "litellm": "import litellm\n",
    "an unknown module": "import some_library\n",
    # state that outlives a call
    "global": "n = 0\ndef f():\n    global n\n    n += 1",
}

HARMLESS = {
    "the clock as an argument": "from datetime import UTC, datetime\ndef f(now: datetime):\n    return now.astimezone(UTC)",
    "a field called now": "def f(event):\n    return event.now",
    "a field called sample": "def f(rollout):\n    return rollout.sample",
    "a field called id": "class C:\n    id: str\n    hash: str\ndef f(c):\n    return c.id + c.hash",
    "a record as a dictionary key": "class C:\n    def __hash__(self):\n        return hash((self.row, self.run))",
    "paths as values": "from pathlib import PurePosixPath\ndef f(p):\n    return PurePosixPath(p).parts",
    "text buffers": "import csv, io\ndef f(s):\n    return list(csv.reader(io.StringIO(s)))",
    "known ids": "from uuid import UUID\ndef f(s):\n    return UUID(s)",
    "urls": "from urllib.parse import urlsplit\ndef f(s):\n    return urlsplit(s)",
    "sampling with a seed": "def f(frame, seed):\n    return frame.sample(10, seed=seed)",
    "the core's own functions": "from osmosis.pure import names\ndef f(seed):\n    return names.sample(seed)",
    "relative imports of the core": "from . import errors\nfrom .errors import Problem\n",
    "times from seconds": "from datetime import UTC, datetime\ndef f(s):\n    return datetime.fromtimestamp(s, UTC)",
}


def planted(source: str) -> list[str]:
    """The messages of the check for a module of the core with this source."""
    found = core_violations(source, "osmosis/pure/planted.py", "osmosis.pure.planted")
    return [violation.message for violation in found]


def test_the_core_has_no_effects():
    """No module of osmosis.pure contains an effect, even in functions that nobody calls."""
    assert check_folder(ROOT / "osmosis" / "pure", core_violations) == []


def test_the_documented_names_only_reexport():
    """osmosis_ai holds imports of our own code and nothing else."""
    assert check_folder(ROOT / "osmosis_ai", lambda source, file, _module: door_violations(source, file)) == []


@pytest.mark.parametrize("name", PLANTED)
def test_planted_effects_are_found(name: str):
    """Each effect, planted in a module of the core, is reported."""
    assert planted(PLANTED[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_code_passes(name: str):
    """What the core needs is not mistaken for an effect."""
    assert planted(HARMLESS[name]) == []


def test_a_violation_names_file_and_line():
    """A report leads to the place."""
    [violation] = core_violations("x = 1\n\nimport os\n", "osmosis/pure/planted.py", "osmosis.pure.planted")
    assert str(violation).startswith("osmosis/pure/planted.py:3: the environment")


@pytest.mark.parametrize(
    "source", ["import os", "from httpx import get", "def f(): ...", "class C: ...", "x = 1", "print('x')"]
)
def test_code_behind_the_documented_names_is_found(source: str):
    """A definition or a foreign import in osmosis_ai is reported."""
    assert door_violations(f'"""Names."""\n\n{source}\n', "osmosis_ai/planted.py")


EFFECTS_AT_RUN_TIME = {
    "open": "import os\nopen(os.devnull)",
    "os.listdir": "import os\nos.listdir('.')",
    "a file that a library opens": "import pathlib, os\npathlib.Path(os.devnull).read_bytes()",
    "socket": "import socket\nsocket.socket().bind(('127.0.0.1', 0))",
    "subprocess": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])",
    "environment": "import os\nos.putenv('OSMOSIS_PLANTED', '1')",
}


@pytest.mark.parametrize("name", EFFECTS_AT_RUN_TIME)
@pytest.mark.parametrize("swallowed", [False, True])
def test_effects_at_run_time_are_refused(name: str, swallowed: bool):
    """The audit hook refuses an effect whose frame is the core's, and remembers it when somebody swallows the exception."""
    source = EFFECTS_AT_RUN_TIME[name]
    if swallowed:
        source = "try:\n" + textwrap.indent(source, "    ") + "\nexcept BaseException:\n    pass"
    code = compile(source, purity_hook.CORE + "planted.py", "exec")
    if swallowed:
        exec(code, {})
    else:
        with pytest.raises(purity_hook.ImpureError):
            exec(code, {})
    assert [line.startswith("osmosis/pure/planted.py:") for line in purity_hook.take_violations()] == [True]


def test_effects_of_others_are_allowed(tmp_path: Path):
    """The hook leaves tests, the shell and imports made by the core alone."""
    file = tmp_path / "x"
    file.write_text("x")
    callback = compile("import tomllib, colorsys\nvalue = call()", purity_hook.CORE + "planted.py", "exec")
    sys.modules.pop("colorsys", None)

    def call() -> str:
        return file.read_text()

    scope: dict[str, object] = {"call": call}
    exec(callback, scope)
    assert scope["value"] == "x"
    assert purity_hook.take_violations() == []


HEAVY = ("polars", "litellm", "aiohttp", "pydantic")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("osmosis", HEAVY),
        ("osmosis.pure.protocol", HEAVY),
        ("osmosis.pure.trajectory", HEAVY),
        ("osmosis.pure.artifacts", HEAVY),
        ("osmosis_ai", ("polars", "litellm", "aiohttp")),
        ("osmosis_ai.rollout", ("polars", "litellm", "aiohttp")),
    ],
)
def test_light_imports_stay_light(module: str, unwanted: tuple[str, ...]):
    """A rollout's environment has no polars and no LiteLLM, so what it imports must not ask for them (ruling 23)."""
    program = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()).isdisjoint(unwanted)
