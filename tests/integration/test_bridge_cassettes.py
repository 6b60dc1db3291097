"""Recording through a real bridge into a real file, and replaying it with no provider at all (ruling 21)."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from osmosis.pure.cassette import Header, fingerprint
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.redaction import Redactor
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge import Recorder, load_cassette
from tests.integration.stub_provider import KEY, STREAM, Answer, answers, bridged, completion, serving, streams

NOWHERE = "http://127.0.0.1:9/v1"
HEADER = Header("openai/real-1", "a stub", "2026-11-30T12:00:00Z")


def question(text: str, **more: Any) -> dict[str, Any]:
    """A request with one message."""
    return {"model": "asked", "messages": [{"role": "user", "content": text}], **more}


async def counting(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """A provider whose answers all differ, streamed or not."""
    counting.calls += 1  # type: ignore[attr-defined]
    if json.loads(body).get("stream"):
        return await streams(*STREAM)(request, body)
    return await answers(completion(f"answer {counting.calls}"))(request, body)  # type: ignore[attr-defined]


counting.calls = 0  # type: ignore[attr-defined]


async def record(
    path: Path, bodies: list[Any], answer: Answer = counting, redactor: Redactor | None = None
) -> list[tuple[int, bytes]]:
    """Record these requests of row 3, run 1, one after the other, and return what the client heard."""
    secrets = redactor or Redactor()
    async with serving(answer) as stub, bridged(stub.url, record=Recorder(path, HEADER, secrets), redactor=secrets) as front:
        return [await front.ask(body) for body in bodies]


async def replay(path: Path, bodies: list[Any], parallel: bool = False) -> list[tuple[int, bytes]]:
    """Replay these requests with nobody to call."""
    async with bridged(NOWHERE, key=None, replay=load_cassette(path)) as front:
        if parallel:
            return await asyncio.gather(*map(front.ask, bodies))
        return [await front.ask(body) for body in bodies]


async def test_what_was_heard_is_heard_again(tmp_path):
    """Whole answers, streams and refusals replay byte for byte with no provider, and usage is counted as it was."""
    path = tmp_path / "new folder" / "c.jsonl"
    bodies = [question("a"), question("a"), question("b", stream=True), question("c", temperature=1.5)]
    heard = await record(path, bodies)
    assert await replay(path, bodies) == heard
    async with bridged(NOWHERE, key=None, replay=load_cassette(path)) as front:
        for body in bodies:
            await front.ask(body)
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),) * 4
        assert front.bridge.missing == ()


async def test_scheduling_changes_nothing(tmp_path):
    """One after the other or all at once, in either order, each request hears its own answer."""
    path = tmp_path / "c.jsonl"
    bodies = [question(f"q{index}") for index in range(16)]
    heard = await record(path, bodies)
    assert await replay(path, bodies, parallel=True) == heard
    assert await replay(path, bodies[::-1], parallel=True) == heard[::-1]


async def test_equal_requests_hear_all_answers(tmp_path):
    """Equal requests in parallel share the recorded answers among them, each once; one more is missing."""
    path = tmp_path / "c.jsonl"
    heard = await record(path, [question("same")] * 4)
    assert len(set(heard)) == 4
    again = await replay(path, [question("same")] * 5, parallel=True)
    assert sorted(again[:4]) == sorted(heard)
    assert again[4][0] == 404
    assert b"4 time(s)" in again[4][1]


async def test_a_missing_request_is_never_a_live_call(tmp_path):
    """A request that is not recorded is 404 with what differs, in the client's own error shape, and the run can count it."""
    path = tmp_path / "c.jsonl"
    await record(path, [question("2+2?")])
    async with serving(answers()) as stub, bridged(stub.url, replay=load_cassette(path)) as front:
        for stream in (False, True):
            status, body = await front.ask(question("2+3?", **({"stream": True} if stream else {})))
            assert status == 404
            assert "messages[0].content: recorded '2+2?', asked '2+3?'" in json.loads(body)["error"]["message"]
        front.bridge.register("other", 4, 0)
        assert (await front.ask(question("2+2?"), "other"))[0] == 404
        assert [missing.key.row for missing in front.bridge.missing] == [3, 3, 4]
        for _ in range(120):
            await front.ask(question("2+3?"))
        assert (len(front.bridge.missing), front.bridge.missing_count) == (100, 123)
    assert stub.seen == []


async def test_a_retried_rollout_hears_the_same(tmp_path):
    """A second attempt of the same row and run is a new rollout and hears the recording from its beginning."""
    path = tmp_path / "c.jsonl"
    heard = await record(path, [question("a"), question("a")])
    async with bridged(NOWHERE, key=None, replay=load_cassette(path)) as front:
        front.bridge.register("second attempt", 3, 1)
        assert [await front.ask(question("a")) for _ in heard] == heard
        assert [await front.ask(question("a"), "second attempt") for _ in heard] == heard


async def test_concurrent_recordings_have_one_normal_form(tmp_path):
    """The file of a run with many calls in flight equals, byte for byte, the file of a run with one."""
    files = []
    for parallel in (True, False):
        path = tmp_path / f"{parallel}.jsonl"
        async with serving(answers()) as stub, bridged(stub.url, record=Recorder(path, HEADER, Redactor())) as front:
            for index in range(20):
                front.bridge.register(f"r{index}", index, 0)
            calls = [front.ask(question(f"q{index}"), f"r{index}") for index in range(20)]
            if parallel:
                await asyncio.gather(*reversed(calls))
            else:
                for call in calls:
                    await call
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert files[0].count(b"\n") == 21


async def test_recording_into_an_existing_cassette_merges(tmp_path):
    """New calls join, asked again they replace, and what was not asked again stays."""
    path = tmp_path / "c.jsonl"
    first = await record(path, [question("a"), question("b")])
    second = await record(path, [question("b"), question("c")])
    assert await replay(path, [question("a"), question("b"), question("c")]) == [first[0], *second]


async def test_recording_nothing_changes_nothing(tmp_path):
    """Opening a cassette for recording and recording no call leaves its bytes alone."""
    path = tmp_path / "c.jsonl"
    await record(path, [question("a")])
    before = path.read_bytes()
    Recorder(path, Header("other", "later", "2027-01-01T00:00:00Z"), Redactor()).close()
    assert path.read_bytes() == before


async def test_each_call_is_on_disk_before_it_is_answered(tmp_path):
    """A run that is killed after its last answer has lost nothing: the line was written first."""
    path = tmp_path / "c.jsonl"
    async with serving(counting) as stub, bridged(stub.url, record=Recorder(path, HEADER, Redactor())) as front:
        for count in range(1, 4):
            await front.ask(question(f"q{count}"))
            assert path.read_bytes().count(b"\n") == 1 + count
            assert len(load_cassette(path).calls) == count


async def test_a_torn_line_is_cut_off(tmp_path):
    """A crash in the middle of a line costs that call only, wherever the tear is, and recording goes on behind it."""
    path = tmp_path / "c.jsonl"
    heard = await record(path, [question("a"), question("b")])
    whole = path.read_bytes()
    keys = list(load_cassette(path).calls)
    last_line = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for length in range(last_line, len(whole)):
        path.write_bytes(whole[:length])
        Recorder(path, HEADER, Redactor()).close()
        assert list(load_cassette(path).calls) == (keys if length == len(whole) - 1 else keys[:1])
    assert len(heard) == 2


async def test_a_disk_that_refuses_ends_the_recording_not_the_run(tmp_path):
    """When a line cannot be written whole, the call is answered all the same, the run learns why, and earlier calls stay."""
    path = tmp_path / "c.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with serving(counting) as stub, bridged(stub.url, record=Recorder(path, HEADER, Redactor())) as front:
        await front.ask(question("a"))
        assert front.bridge.recording_error is None
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limits[1]))
        try:
            heard = [await front.ask(question(text)) for text in ("b", "c")]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [status for status, _ in heard] == [200, 200]
        assert front.bridge.recording_error is not None
        assert "cannot be written" in str(front.bridge.recording_error)
        assert len(front.bridge.take_usage("r") or ()) == 3
    assert [call.request["messages"][0]["content"] for call in load_cassette(path).calls.values()] == ["a"]


async def test_failures_of_the_moment_are_not_recorded(tmp_path):
    """Rate limits, rejected keys, broken servers and half streams are not replayed; a refusal of the request itself is."""
    path = tmp_path / "c.jsonl"
    for index, status in enumerate((401, 403, 408, 429, 500, 503)):
        await record(path, [question(f"q{index}")], answers({"error": "x"}, status))
    await record(path, [question("half", stream=True)], streams(*STREAM[:2]))
    assert load_cassette(path).calls == {}
    refused = await record(path, [question("bad")], answers({"error": {"message": "no"}}, 400))
    assert await replay(path, [question("bad")]) == refused


async def test_secrets_stay_out_of_the_file(tmp_path):
    """Neither a secret that the rollout sends, nor one that the provider echoes, nor the key reaches the disk."""
    path = tmp_path / "c.jsonl"
    secret = 'hunter2 "quoted" and more'
    redactor = Redactor([secret, KEY])
    echo = completion(f"you said {secret} with {KEY}")
    heard = await record(path, [question(f"my secret is {secret}")], answers(echo), redactor)
    await record(path, [question(f"again {secret}", stream=True)], streams(*STREAM), redactor)
    data = path.read_text(encoding="utf-8")
    assert secret in json.loads(heard[0][1])["choices"][0]["message"]["content"]
    for form in (secret, json.dumps(secret)[1:-1], KEY, "hunter2"):
        assert form not in data
    assert (await replay(path, [question(f"my secret is {secret}")]))[0][0] == 200


async def test_the_fingerprint_follows_the_answers(tmp_path):
    """What a replay can hear decides the fingerprint for the run's lock; the header does not."""
    path = tmp_path / "c.jsonl"
    await record(path, [question("a")])
    before = fingerprint(load_cassette(path))
    path.write_bytes(path.read_bytes().replace(b'"recorded_from":"a stub"', b'"recorded_from":"elsewhere"'))
    assert fingerprint(load_cassette(path)) == before
    await record(path, [question("b")])
    assert fingerprint(load_cassette(path)) != before


@pytest.mark.parametrize(
    "content", [b"", b"not a cassette\n", b'{"cassette":99,"model":"","recorded_from":"","created_at":""}\n']
)
def test_a_foreign_file_is_never_overwritten(tmp_path, content):
    """Recording into a file that is no cassette is refused and leaves it as it was; an empty file is as good as none."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(content)
    if not content:
        Recorder(path, HEADER, Redactor()).close()
        assert load_cassette(path).header == HEADER
        return
    with pytest.raises(OsmosisError, match=r"c\.jsonl"):
        Recorder(path, HEADER, Redactor())
    assert path.read_bytes() == content


def test_paths_that_cannot_be_used_are_clear_errors(tmp_path):
    """A missing cassette, a directory, and a path below a file are refused without a traceback."""
    with pytest.raises(OsmosisError, match="There is no cassette") as caught:
        load_cassette(tmp_path / "absent.jsonl")
    assert caught.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(OsmosisError, match="cannot be read"):
        load_cassette(tmp_path)
    with pytest.raises(OsmosisError, match="cannot be written"):
        Recorder(tmp_path, HEADER, Redactor())
    (tmp_path / "file").touch()
    with pytest.raises(OsmosisError, match="cannot be written"):
        Recorder(tmp_path / "file" / "c.jsonl", HEADER, Redactor())


async def replay_or_record(path: Path, bodies: list[Any], url: str, parallel: bool = False) -> list[tuple[int, bytes]]:
    """Ask these with a cassette that may hold some of the answers."""
    held = load_cassette(path)
    async with bridged(url, replay=held, record=Recorder(path, HEADER, Redactor())) as front:
        if parallel:
            return await asyncio.gather(*map(front.ask, bodies))
        return [await front.ask(body) for body in bodies]


@pytest.mark.parametrize("parallel", [False, True])
async def test_only_what_is_new_is_asked(tmp_path, parallel):
    """Held answers cost no call, new ones are asked and kept, and a pure replay then has everything."""
    path = tmp_path / "c.jsonl"
    old = await record(path, [question("a"), question("a"), question("b", stream=True)])
    asked = [question("a"), question("a"), question("a"), question("b", stream=True), question("c"), question("a")]
    async with serving(counting) as stub:
        heard = await replay_or_record(path, asked, stub.url, parallel)
        assert len(stub.seen) == 3
    assert {body for _, body in old} <= {body for _, body in heard}
    again = await replay(path, asked)
    assert sorted(again) == sorted(heard)
    assert len(load_cassette(path).calls) == 6


async def test_a_failed_call_leaves_no_gap(tmp_path):
    """A refusal of the moment is not recorded and takes no number, so that the repeated call is found later."""
    path = tmp_path / "c.jsonl"
    await record(path, [question("a")])
    replies = iter([answers({"error": {"message": "busy"}}, 429), counting])

    async def first_busy(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        return await next(replies)(request, body)

    async with serving(first_busy) as stub:
        heard = await replay_or_record(path, [question("a"), question("new"), question("new")], stub.url)
    assert [status for status, _ in heard] == [200, 429, 200]
    assert await replay(path, [question("new")]) == [heard[2]]


async def test_with_everything_held_nobody_is_called(tmp_path):
    """A cassette that holds all answers needs neither provider nor key, and its bytes stay as they are."""
    path = tmp_path / "c.jsonl"
    heard = await record(path, [question("a"), question("b")])
    before = path.read_bytes()
    assert await replay_or_record(path, [question("a"), question("b")], NOWHERE) == heard
    assert path.read_bytes() == before


def test_two_runs_cannot_record_into_one_file(tmp_path):
    """The second recorder is refused with the reason; when the first is done, the next one goes on with its calls."""
    path = tmp_path / "c.jsonl"
    first = Recorder(path, HEADER, Redactor())
    with pytest.raises(OsmosisError, match="Another run is recording") as caught:
        Recorder(path, HEADER, Redactor())
    assert caught.value.code is ErrorCode.CONFLICT
    first.close()
    Recorder(path, HEADER, Redactor()).close()
    assert load_cassette(path).header == HEADER


async def test_cassettes_merge_by_putting_one_behind_the_other(tmp_path):
    """Two files in one hold the calls of both; where both have one, the later file's answer stands."""
    first, second, both = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "both.jsonl"
    await record(first, [question("a"), question("b")])
    heard = await record(second, [question("b"), question("c")])
    both.write_bytes(first.read_bytes() + second.read_bytes())
    assert await replay(both, [question("b"), question("c")]) == heard
    assert len(load_cassette(both).calls) == 3
