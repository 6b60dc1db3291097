"""A file that does not exist, and the one beside it that was meant."""

from __future__ import annotations

from pathlib import Path

from osmosis.shell.evaluation.missing_file import meant_beside


def test_the_file_of_the_same_kind_with_nearly_that_name_is_named(tmp_path: Path) -> None:
    """Another kind of file, a directory, and a name unlike it are not proposed; no directory is no error."""
    (tmp_path / "words.jsonl").touch()
    (tmp_path / "word.csv").touch()
    (tmp_path / "wrds.jsonl.d").mkdir()
    assert meant_beside(tmp_path / "wrods.jsonl") == ' Did you mean "words.jsonl"?'
    assert meant_beside(tmp_path / "else.jsonl") == ""
    assert meant_beside(tmp_path / "absent" / "words.jsonl") == ""
    assert meant_beside(tmp_path / "words.jsonl" / "x.jsonl") == ""
    assert meant_beside(Path("a\0b/x.jsonl")) == ""
