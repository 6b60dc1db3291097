"""Exact bytes of lines of `logs.txt`."""

from __future__ import annotations

from osmosis.pure.log_line import log_line
from osmosis.pure.redaction import Redactor

AT = "2026-11-30T12:35:44.521865Z"
REDACTOR = Redactor(["hunter2", 'qu"ote\\', "two\nlines"])


def test_lines(golden):
    """Plain, with details, redacted in message and details, and with everything that could break the line."""
    lines = [
        log_line(AT, "INFO", "run", "started"),
        log_line(AT, "WARNING", "resume", "dropped a torn line", {"bytes": 17}),
        log_line(AT, "INFO", "rollout-server", ""),
        log_line(AT, "INFO", "result", "row 0 run 1", {"status": "success", "reward": 0.25, "note": "größer\u2028\x7f"}),
        log_line(AT, "ERROR", "rollout-server", 'key hunter2 and qu"ote\\ and two\nlines', redactor=REDACTOR),
        log_line(AT, "ERROR", "dispatch", "refused", {"hunter2": 1, "body": '{"key": "qu\\"ote\\\\"}'}, REDACTOR),
        log_line(
            AT, "INFO", "rollout-server", "\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x07 back\b \x1b[2J\u202eevil\r\nnext\ttab"
        ),
    ]
    golden("log/lines.txt", "".join(f"{line}\n" for line in lines).encode())
