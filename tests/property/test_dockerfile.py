"""Dockerfiles: what we read of them, and what we add (rollout_protocol 13.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.dockerfile import (
    Copy,
    Env,
    Run,
    User,
    Workdir,
    build_steps,
    instructions,
    with_archive,
    without_ignoring,
)
from osmosis.pure.errors import OsmosisError

SIMPLE = """\
# syntax=docker/dockerfile:1
FROM python:3.12 AS base
ARG WHERE=/srv
ENV A=1 B="two words"
ENV OLD style value
WORKDIR $WHERE/app
COPY one.txt two.txt ./
COPY ["with space.txt", "/data/"]
RUN echo one && \\
    # a comment between
    echo two
RUN ["echo", "a b"]
RUN <<EOF
first
second
EOF
USER agent:staff
EXPOSE 80
CMD ["sleep", "infinity"]
"""


def test_simple_instructions_become_steps():
    """Continued lines, here-documents, the JSON form, variables: each step says what a builder would do."""
    assert build_steps(SIMPLE, "Dockerfile") == (
        Env(3, (("WHERE", "/srv"),)),
        Env(4, (("A", "1"), ("B", "two words"))),
        Env(5, (("OLD", "style value"),)),
        Workdir(6, "/srv/app"),
        Copy(7, ("one.txt", "two.txt"), "./"),
        Copy(8, ("with space.txt",), "/data/"),
        Run(9, "echo one &&     echo two"),
        Run(12, "echo 'a b'"),
        Run(13, "first\nsecond\n"),
        User(17, "agent"),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("FROM other", "more than one stage"),
        ("COPY --from=x a b", "options"),
        ("RUN --mount=type=cache true", "options"),
        ("ADD http://x/y z", "not supported"),
        ("COPY ../secret .", "leaves the build context"),
        ("COPY alone", "a source and a target"),
        ("FRM x", "not known"),
        ("ENV A=1 B", "NAME=value"),
    ],
)
def test_what_needs_a_builder_is_refused_by_its_line(line, reason):
    """Every such line is named, with the file and the reason, all at once."""
    with pytest.raises(OsmosisError) as caught:
        build_steps(f"FROM a\n{line}\nFRM twice\n", "environment/Dockerfile")
    assert caught.value.problems[0].where == "environment/Dockerfile:2"
    assert reason in caught.value.problems[0].message
    assert caught.value.problems[-1].where == "environment/Dockerfile:3"


@given(st.sampled_from(["FROM a\nUSER agent", "FROM a\nRUN x\n", SIMPLE, "", "FROM a\r\nRUN y \\\r\n  z\r\n"]))
def test_an_archive_is_one_more_instruction_at_the_end(text):
    """What was there stays as it is, whatever its last line looks like; the user is not changed."""
    changed = with_archive(text, "site.tar.gz", "/opt/osmosis/site")
    assert changed.startswith(text)
    assert instructions(changed)[:-1] == instructions(text)
    assert (instructions(changed)[-1].name, instructions(changed)[-1].arguments) == (
        "ADD",
        '["site.tar.gz", "/opt/osmosis/site/"]',
    )


def test_the_escape_directive_counts():
    """With another escape character a backslash at the end of a line is no continuation."""
    text = "# escape=`\nFROM a\nRUN dir C:\\\nRUN one `\n two\n"
    assert [item.arguments for item in instructions(text)] == ["a", "dir C:\\", "one  two"]


def test_an_ignored_archive_is_let_through():
    """The last pattern of a `.dockerignore` wins."""
    assert without_ignoring("*", "site.tar.gz") == "*\n!site.tar.gz\n"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    """Nothing in a Dockerfile makes the reader fail in another way."""
    try:
        steps = build_steps(text, "Dockerfile")
    except OsmosisError:
        steps = ()
    assert all(0 < step.line <= text.count("\n") + 1 for step in steps)
