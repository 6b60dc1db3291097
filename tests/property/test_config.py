from __future__ import annotations

import itertools
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.canonical import pretty_json
from osmosis.pure.config import EvalConfig, EvaluationConfig, ExperimentConfig, decode_config
from osmosis.pure.errors import OsmosisError
from osmosis.pure.model_prices import ModelPrice
from osmosis.pure.toml_lines import key_lines
from tests.strategies.data import texts

MINIMAL = """\
[experiment]
rollout = "arithmetic"
entrypoint = "main.py"
model_path = "openai/gpt-x"
dataset = "sums"

[secrets]
required = []
"""

FULL = """\
# a comment
[experiment]
rollout = "arithmetic"
entrypoint = "pkg/main.py"
model_path = "openai/gpt-x"
dataset = "sums"
branch = "feature/x"

[evaluation]
limit = 10
n = 4
batch_size = 8
pass_threshold = 1
agent_workflow_timeout_s = 450
grader_timeout_s = 0.5

[env]
ZED = ""
ALPHA = "1"

[secrets]
required = ["Z_KEY", "A_KEY"]

[advanced]
when = 2026-11-30T12:00:00Z
nested = { list = [1, 2.5, true] }
"""


def problems_of(text: str) -> list[tuple[str, str | None, str]]:
    """(where, key, message) of each problem that decoding `text` tells."""
    with pytest.raises(OsmosisError) as caught:
        decode_config(text.encode(), "configs/eval/x.toml")
    assert caught.value.hint
    assert all(issue.keys() == {"key", "message"} for issue in caught.value.details["issues"])
    assert len(caught.value.details["issues"]) in (0, len(caught.value.problems))
    return [(problem.where, problem.key, problem.message) for problem in caught.value.problems]


def test_a_minimal_config_has_the_documented_defaults():
    """n is 1, the threshold 1.0, everything else absent."""
    assert decode_config(MINIMAL.encode(), "x") == EvalConfig(
        experiment=ExperimentConfig("arithmetic", "main.py", "openai/gpt-x", "sums"),
        evaluation=EvaluationConfig(limit=None, n=1, batch_size=None, pass_threshold=1.0),
        env={},
        secret_names=(),
        advanced={},
    )


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_full_config(prefix, newline):
    """Every key arrives with its type; env is sorted, secrets keep their order, [advanced] can be written as JSON."""
    config = decode_config(prefix + FULL.replace("\n", newline).encode(), "x")
    assert config.experiment == ExperimentConfig("arithmetic", "pkg/main.py", "openai/gpt-x", "sums", branch="feature/x")
    assert config.evaluation == EvaluationConfig(10, 4, 8, 1.0, 450.0, 0.5)
    assert type(config.evaluation.pass_threshold) is float
    assert list(config.env.items()) == [("ALPHA", "1"), ("ZED", "")]
    assert config.secret_names == ("Z_KEY", "A_KEY")
    assert config.advanced == {"when": "2026-11-30T12:00:00+00:00", "nested": {"list": [1, 2.5, True]}}
    pretty_json(config.advanced)


def test_all_problems_are_told_at_once_in_file_order():
    """One run of the command is enough to learn everything that is wrong with a config, each with line, key and remedy."""
    text = """\
n = 3
[experiment]
rollout = "a/b"
entrypont = "main.py"
model_path = 7
dataset = " "

[evaluation]
n = true
limit = 0
pass_threshold = nan

[evalution]
x = 1
"""
    label = "configs/eval/x.toml"
    assert problems_of(text) == [
        (label, "secrets", "[secrets]: this section is missing; write `required = []` in it if the run needs no secrets"),
        (f"{label}:1", "n", "[n]: unknown key outside any section; it belongs in [evaluation]"),
        (f"{label}:2", "experiment.entrypoint", "[experiment] entrypoint: this key is missing"),
        (
            f"{label}:3",
            "experiment.rollout",
            "[experiment] rollout: must be the name of one directory under rollouts/, not 'a/b'",
        ),
        (f"{label}:4", "experiment.entrypont", "[experiment] entrypont: unknown key; did you mean entrypoint?"),
        (f"{label}:5", "experiment.model_path", "[experiment] model_path: must be a string, not an integer"),
        (f"{label}:6", "experiment.dataset", "[experiment] dataset: must not be empty"),
        (f"{label}:9", "evaluation.n", "[evaluation] n: must be an integer, not a boolean"),
        (f"{label}:10", "evaluation.limit", "[evaluation] limit: must be greater than 0, not 0"),
        (f"{label}:11", "evaluation.pass_threshold", "[evaluation] pass_threshold: must be a finite number, not nan"),
        (f"{label}:13", "evalution", "[evalution]: unknown section; did you mean [evaluation]?"),
    ]


def edited(section: str, key: str, value: str) -> str:
    """MINIMAL with one key set to a TOML value."""
    lines = [line for line in MINIMAL.splitlines() if not line.startswith(f"{key} =")]
    if f"[{section}]" not in lines:
        lines.append(f"[{section}]")
    lines.insert(lines.index(f"[{section}]") + 1, f"{key} = {value}")
    return "\n".join(lines)


BAD_VALUES = [
    *(("experiment", "rollout", value) for value in ('""', '".."', '"."', '"a/b"', "'a\\b'", '"a\\u0000"', "1", "[]")),
    *(
        ("experiment", "entrypoint", value)
        for value in (
            '"/main.py"',
            '"../main.py"',
            '"a/../../b.py"',
            '"."',
            '"a/.."',
            '"a/"',
            "'C:\\x.py'",
            "'a\\b'",
            "true",
        )
    ),
    *(("experiment", "branch", value) for value in ('""', '"a b"', '"a\\tb"', "3")),
    *(("experiment", "commit_sha", value) for value in ('"abc"', '"123456g"', f'"{"a" * 41}"', "1234567")),
    *(("experiment", "dataset", value) for value in ('""', "1979-05-27", "{}", "1.5")),
    *(
        ("evaluation", key, value)
        for key in ("limit", "n", "batch_size")
        for value in ("0", "-1", "1.0", '"1"', "false", "9223372036854775808", "[1]")
    ),
    *(("evaluation", "pass_threshold", value) for value in ("inf", "-inf", "nan", '"1"', "true", "1" + "0" * 400)),
    *(
        ("evaluation", key, value)
        for key in ("agent_workflow_timeout_s", "grader_timeout_s")
        for value in ("0", "-0.0", "-1", "inf", "nan", '"60"', "true", "1e300")
    ),
    *(("env", name, '"x"') for name in ("lower", "1A", '"A-B"', '""', "_OSMOSIS_X", '"Ä"')),
    *(("env", "NAME", value) for value in ("1", "true", "[]", '"a\\u0000b"')),
    *(
        ("secrets", "required", value)
        for value in ('"A"', '["a"]', '["_A"]', '["A", "A"]', "[1]", '[""]', '["A\\n"]', "{}", "true")
    ),
    ("secrets", "optional", "[]"),
    ("advanced", "x", "[{a = nan}]"),
]
"""Section, key and a value in TOML that breaks the one rule of that key."""


@pytest.mark.parametrize(("section", "key", "value"), BAD_VALUES)
def test_bad_values_name_their_key_and_line(section, key, value):
    """Each rule of the contract refuses what breaks it, and says on which line."""
    text = edited(section, key, value)
    found = problems_of(text)
    assert len(found) == 1
    line = text.splitlines().index(f"{key} = {value}") + 1
    assert found[0][0] == f"configs/eval/x.toml:{line - 1 if section == 'advanced' else line}"
    assert found[0][1] == ("advanced" if section == "advanced" else f"{section}.{key.strip(chr(34))}")


@pytest.mark.parametrize("entrypoint", ["main.py", "./main.py", "a/b.py", "a/../main.py", "a//b.py", "..x/m.py"])
def test_entrypoints_that_stay_inside(entrypoint):
    """A path that leads into the rollout directory is accepted however it is spelled."""
    assert (
        decode_config(edited("experiment", "entrypoint", f'"{entrypoint}"').encode(), "x").experiment.entrypoint == entrypoint
    )


def test_branch_and_commit_exclude_each_other():
    """Both together are refused; when one of them is malformed that comes first."""
    both = edited("experiment", "branch", '"main"').replace("branch", 'commit_sha = "abcdef0"\nbranch')
    assert [key for _, key, _ in problems_of(both)] == ["experiment.commit_sha"]
    assert [message for _, _, message in problems_of(both.replace("abcdef0", "zz"))] == [
        "[experiment] commit_sha: must be 7 to 40 hexadecimal digits"
    ]


def test_a_name_is_either_a_secret_or_plain():
    """The same name in [env] and [secrets] is refused."""
    text = MINIMAL.replace("[]", '["A"]') + '[env]\nA = "1"\n'
    assert problems_of(text)[0][1:] == (
        "secrets.required",
        "[secrets] required: A is also set in [env]; a name is either a secret or plain",
    )


@pytest.mark.parametrize("section", ["experiment", "evaluation", "env", "secrets", "advanced"])
@pytest.mark.parametrize("value", ["3", '"x"', "[]"])
def test_a_section_must_be_a_table(section, value):
    """A section written as a plain key is told apart from a missing one."""
    rest = re.sub(rf"\[{section}\]\n(?:\w.*\n)*", "", MINIMAL)
    found = problems_of(f"{section} = {value}\n{rest}")
    assert [(where, key) for where, key, _ in found] == [("configs/eval/x.toml:1", section)]
    assert "must be a table" in found[0][2]


@pytest.mark.parametrize(
    ("text", "where", "part"),
    [
        ("[experiment]\nrollout = \n", "configs/eval/x.toml:2", "column 11"),
        ("[a]\n[a]\n", "configs/eval/x.toml:2", "twice"),
        ('x = "', "configs/eval/x.toml:1", "end of the file"),
        ("x = " + "[" * 100_000, "configs/eval/x.toml", "deep"),
        ("x = " + "1" * 5000, "configs/eval/x.toml:1", "digits"),
    ],
)
def test_syntax_errors_have_a_place(text, where, part):
    """What is not TOML at all is told with line and column."""
    found = problems_of(text)
    assert len(found) == 1
    assert found[0][0] == where
    assert part in found[0][2]


def test_other_encodings_are_refused_with_the_byte_offset():
    """A Latin-1 config names the byte that is not UTF-8."""
    with pytest.raises(OsmosisError, match="byte offset 5"):
        decode_config("x = 'é'".encode("latin-1"), "x.toml")


def decode_or_complain(data: bytes) -> None:
    """Decode a config, or see to it that the error says what is wrong."""
    try:
        decode_config(data, "x")
    except OsmosisError as error:
        if not error.problems or not error.hint:
            raise AssertionError("an error that does not help") from error


@given(st.binary(max_size=60) | st.text(st.sampled_from("[]{}=.,\"'#\n\r ab1\\-"), max_size=40).map(str.encode))
def test_no_bytes_bring_anything_but_our_own_error(data):
    """Whatever stands in the file, the answer is a config or an OsmosisError."""
    decode_or_complain(data)


def test_every_truncated_config_is_a_config_or_our_own_error():
    """A half-written file is never a crash."""
    data = FULL.encode()
    for length in range(len(data)):
        decode_or_complain(data[:length])


# Lines of keys -----------------------------------------------------------------------------------------------------------

_bare = st.text(st.sampled_from("abc-_1"), min_size=1, max_size=3)
_quoted = texts.map(
    lambda text: '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in text) + '"'
)
_keys = _bare | _quoted | st.sampled_from(["'#'", "'\"'", '"["', "'=.'"])
_values = st.sampled_from(
    [
        "1",
        "1.5e3",
        "true",
        "1979-05-27 07:32:00",
        '"# no [comment]\\" ="',
        "'\\'",
        '"""\n[a]\n\\""" x = 1 """',
        '"""a""b"""""',
        "'''\n'' [x]\n'''''",
        "[\n1, # ]\n 2,\n]",
        "[[], [[1]], '[']",
        '{ a = 1, b = "}", c.d = [1] }',
        "[{ a = '''\n''' }]",
        '1 # comment with "quote',
        "inf",
    ]
)


@st.composite
def _documents(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """A TOML document, and for each value's marker the line of its key."""
    lines: list[str] = []
    expected: dict[str, int] = {}
    for number in range(draw(st.integers(0, 4))):
        lines += draw(st.lists(st.sampled_from(["", "# [not] = 'a table", "  \t"]), max_size=2))
        if draw(st.booleans()):
            lines.append(f"[ t{number} . {draw(_keys)} ] # x")
        for item in range(draw(st.integers(0, 3))):
            marker = f"m{number}{item}"
            expected[marker] = sum(line.count("\n") + 1 for line in lines) + 1
            lines.append(f"  {marker} . {draw(_keys)} = {draw(_values)}")
    return "\n".join(lines), expected


@given(_documents(), st.sampled_from(["\n", "\r\n"]))
def test_keys_are_found_on_their_lines(document, newline):
    """Comments, strings of all four kinds, arrays and tables over several lines do not shift a line number."""
    text, expected = document
    text = text.replace("\n", newline)
    parsed = tomllib.loads(text)
    lines = key_lines(text)
    for marker, line in expected.items():
        assert [found for path, found in lines.items() if path[-1] == marker] == [line]
    for path in lines:
        value = parsed
        for part in path:
            value = value[part]


def test_arrays_of_tables_and_dotted_keys():
    """Each level of a dotted key is listed; later tables of an array keep the first one's line."""
    text = 'a.b."c d" = 1\n[[x]]\ny = 1\n[[x]]\ny = 2\n'
    assert key_lines(text) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "b", "c d"): 1,
        ("x",): 2,
        ("x", "y"): 3,
    }


@given(st.text(st.sampled_from("[]{}=.,\"'#\n ab1\\"), max_size=30))
def test_all_valid_documents_are_walked_to_their_end(text):
    """What tomllib accepts, the walk accepts, and it finds every top-level key."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = key_lines(text)
    assert {path[0] for path in lines} == parsed.keys()
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
    assert all(first <= second for (_, first), (_, second) in itertools.pairwise(lines.items()))


BASE = b"""
[experiment]
rollout = "r"
entrypoint = "main.py"
model_path = "openai/m"
dataset = "d"
[secrets]
required = []
"""


def test_the_price_of_the_model_can_be_stated():
    """`[pricing]` is US dollars a million tokens; input and output belong together, and nothing is paid back."""
    assert decode_config(BASE, "c").price is None
    stated = decode_config(BASE + b"[pricing]\ninput = 1\noutput = 2.5\ncached_input = 0.1\n", "c").price
    assert stated == ModelPrice(1.0, 2.5, 0.1)
    with pytest.raises(OsmosisError) as caught:
        decode_config(BASE + b"[pricing]\ninput = -1\ncache_writes = 2\n", "c")
    keys = [problem.key for problem in caught.value.problems]
    assert sorted(map(str, keys)) == ["pricing.cache_writes", "pricing.input", "pricing.output"]
