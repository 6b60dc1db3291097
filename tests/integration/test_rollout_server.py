"""The rollout server as a process on the loopback: every status and body of rollout_protocol sections 7 and 19."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from osmosis.pure.trajectory import decode_trajectory, trajectory_facts
from tests.integration.rollout_server_process import INSTANCE_ID, rollout_server

PATIENCE = 60.0
"""Seconds after which a workflow that is silent will say nothing more."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with the default limits."""
    with rollout_server(tmp_path_factory.mktemp("trials")) as running:
        yield running


@pytest.fixture(scope="module")
def hurried(tmp_path_factory):
    """A server whose polls and results are over soon."""
    limits: dict[str, Any] = {"result_wait_timeout_sec": 0.1, "result_retention_sec": 0.0}
    with rollout_server(tmp_path_factory.mktemp("trials"), **limits) as running:
        yield running


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    """A server around a custom backend."""
    with rollout_server(tmp_path_factory.mktemp("trials"), backend="one") as running:
        yield running


@pytest.fixture
def gate(tmp_path):
    """A FIFO at which a workflow waits until the test opens it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def heard(gate):
    """What a workflow says through its FIFO. One that never comes to say it fails the test, and holds up no other."""
    with open(os.open(gate, os.O_RDWR), "rb", buffering=0) as pipe:
        assert select.select([pipe], [], [], PATIENCE)[0], "nothing was said"
        return pipe.read(100)


def failure(rollout_id, message, category, sample=None):
    """The final body of a failed rollout."""
    return {
        "rollout_id": rollout_id,
        "status": "failure",
        "sample": sample,
        "err_message": message,
        "err_category": category,
    }


def messages(answer):
    """The conversation of a rollout that answered."""
    return [{"role": "user", "content": "2*2?"}, {"role": "assistant", "content": answer}]


def sample(answer, **fields):
    """A wire sample."""
    return {
        "messages": messages(answer),
        "label": "4",
        "reward": None,
        "remove_sample": False,
        "metrics": {},
        "extra_fields": {},
    } | fields


def identity(document):
    """Whose trajectory a document is."""
    facts = trajectory_facts(document)
    return facts and facts.rollout_id


# ---- health --------------------------------------------------------------------------------------------------------------


def test_health_reports_load_identity_and_lifecycle(server):
    """The health report has the backend's load, who answers and what it is doing, and the bootstrap signs it."""
    response = server.http.get("/health")
    report = response.json()
    assert response.status_code == 200
    assert list(report) == ["status", "concurrency", "instance_id", "process_id", "lifecycle"]
    assert report["concurrency"]["max_concurrent"] == 4
    assert report["instance_id"] == INSTANCE_ID
    assert report["lifecycle"]["accepting_rollouts"] is True
    assert response.headers["x-osmosis-rollout-instance-id"] == INSTANCE_ID
    assert response.headers["x-osmosis-rollout-sdk-version"]
    assert "x-osmosis-rollout-instance-id" not in server.http.get("/docs").headers


def test_identity_in_the_health_report_is_the_servers_own(one_by_one):
    """A backend cannot pose as another server; what else it reports is passed on."""
    report = one_by_one.http.get("/health").json()
    assert report["instance_id"] == INSTANCE_ID
    assert report["chat_endpoint"] == {"environment": "docker", "requires_public_url": True}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("HEAD", "/health", 405), ("GET", "/rollout", 405), ("GET", "/nowhere", 404), ("GET", "/openapi.json", 200)],
)
def test_other_methods_and_paths(server, method, path, status):
    """Only the protocol's methods are served, and FastAPI's own pages."""
    assert server.http.request(method, path).status_code == status


def test_405_names_the_method_that_works(server):
    """As FastAPI's does."""
    response = server.http.get("/rollout")
    assert response.headers["allow"] == "POST"
    assert response.json() == {"detail": "Method Not Allowed"}


# ---- starting ------------------------------------------------------------------------------------------------------------


def test_start_answers_202_with_a_lease(server):
    """The lease token has 43 characters and both limits are stated."""
    body = server.start("started", {"behave": "ok"}).json()
    assert list(body) == [
        "rollout_id",
        "status",
        "polling_lease_token",
        "result_wait_timeout_sec",
        "polling_lease_timeout_sec",
    ]
    assert body["rollout_id"] == "started"
    assert body["status"] == "queued"
    assert len(body["polling_lease_token"]) == 43
    assert (body["result_wait_timeout_sec"], body["polling_lease_timeout_sec"]) == (30.0, 120.0)
    server.result("started")


def test_an_id_is_taken_while_it_runs_and_while_its_result_is_kept(server, gate):
    """409 both times; finished results are not consumed by reading them."""
    server.start("taken", {"behave": "gate", "gate": str(gate)})
    running = server.start("taken")
    gate.write_bytes(b"")
    first, second = server.result("taken"), server.result("taken")
    kept = server.start("taken")
    assert first == second
    assert running.status_code == kept.status_code == 409
    assert running.json() == kept.json() == {"detail": "rollout_id is already registered"}


BAD_ID = {
    "type": "value_error",
    "loc": ["body", "rollout_id"],
    "msg": "Value error, rollout_id must be a single path segment (no path separators, and not '.' or '..')",
    "input": "../x",
    "ctx": {"error": {}},
}
GOOD_BODY = {"initial_messages": [], "rollout_id": "x", "chat_completions_url": "u"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rollout_id": "../x"}, BAD_ID),
        ({"label": 4}, {"type": "string_type", "loc": ["body", "label"]}),
        ({"llm_api_key": ""}, {"type": "string_too_short", "loc": ["body", "llm_api_key"]}),
        ({"agent_timeout_sec": float("nan")}, {"type": "finite_number", "loc": ["body", "agent_timeout_sec"], "input": None}),
        ({"grader_timeout_sec": float("inf")}, {"type": "finite_number", "loc": ["body", "grader_timeout_sec"]}),
        ({"initial_messages": ["x"]}, {"type": "dict_type", "loc": ["body", "initial_messages", 0]}),
        ({"initial_messages": None}, {"type": "list_type", "loc": ["body", "initial_messages"]}),
    ],
)
def test_a_bad_start_is_422_with_the_place(server, change, problem):
    """Each wrong field is named; NaN is a wrong field like any other, not a server error."""
    response = server.http.post(
        "/rollout", content=json.dumps(GOOD_BODY | change), headers={"content-type": "application/json"}
    )
    assert response.status_code == 422
    [detail] = response.json()["detail"]
    assert detail | problem == detail


@pytest.mark.parametrize(
    ("body", "content_type", "status", "kind"),
    [
        (b"", "application/json", 422, "missing"),
        (b"{", "application/json", 422, "json_invalid"),
        (b"[]", "application/json", 422, "model_attributes_type"),
        (json.dumps(GOOD_BODY).encode(), "text/plain", 422, "model_attributes_type"),
        (b'{"rollout_id":"\xff"}', "application/json", 400, None),
        (b"[" * 100_000, "application/json", 400, None),
    ],
)
def test_a_body_that_is_no_request(server, body, content_type, status, kind):
    """Not JSON, not an object, not declared as JSON: refused, never a server error."""
    response = server.http.post("/rollout", content=body, headers={"content-type": content_type})
    assert response.status_code == status
    detail = response.json()["detail"]
    assert (detail[0]["type"] if kind else None) == kind


def test_numbers_as_text_and_unknown_fields_are_taken(server):
    """What pydantic accepts the server accepts, though the strict records do not."""
    body = server.run("lax", agent_timeout_sec="30", grade="true", surprise=1)
    assert (body["status"], body["sample"]["reward"]) == ("success", 1.0)


@pytest.mark.parametrize("rollout_id", ["a b", "run::1", "é", " ", ".x", "a?b", "a#b", "100%", "%2F"])
def test_any_path_segment_is_an_id(server, rollout_id):
    """Ids are percent-encoded in the path, so none is lost."""
    assert server.run(rollout_id)["rollout_id"] == rollout_id


def test_no_capacity_is_429(one_by_one):
    """With the seconds to wait."""
    one_by_one.start("first", initial_messages=[])
    refused = one_by_one.start("second", initial_messages=[])
    one_by_one.cancel(ids=["first"])
    one_by_one.result("first")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "5"
    assert refused.json() == {"detail": "rollout queue is full; retry later"}


# ---- results -------------------------------------------------------------------------------------------------------------


def test_success(server):
    """All five keys and all six of the sample, in order; a returned conversation carries the request's label."""
    body = server.run("success", {"behave": "output"})
    assert body == {
        "rollout_id": "success",
        "status": "success",
        "sample": sample("output", reward=1.0, metrics={"turns": 1.0, "accuracy": 1}),
        "err_message": None,
        "err_category": None,
    }
    assert list(body["sample"]) == ["messages", "label", "reward", "remove_sample", "metrics", "extra_fields"]


def test_a_sample_source_keeps_its_own_label(server):
    """Which is null unless the source sets one."""
    body = server.run("sourced", {"behave": "source"})
    assert body["sample"]["messages"] == [{"role": "assistant", "content": "from the source"}]
    assert body["sample"]["label"] is None
    assert body["sample"]["reward"] == 1.0


@pytest.mark.parametrize(
    ("behave", "message", "category"),
    [
        ("boom", "workflow exploded", "agent_error"),
        ("value", "bad value", "validation_error"),
        ("gave up", "client gave up", "timeout"),
        ("sandbox", "sandbox is down", "http_error"),
    ],
)
def test_a_workflow_that_raises(server, behave, message, category):
    """Its text, its category, no sample, no grading."""
    assert server.run(behave, {"behave": behave}) == failure(behave, message, category)


def test_a_workflow_that_returns_nonsense(server):
    """A validation error that says what may be returned."""
    body = server.run("nonsense", {"behave": "type"})
    assert body["err_category"] == "validation_error"
    assert "AgentWorkflowOutput" in body["err_message"]


@pytest.mark.parametrize("behave", ["hang", "swallows"])
def test_a_workflow_past_its_deadline(server, behave):
    """The text names phase and limit, also when the workflow swallows its cancellation."""
    body = server.run(f"late {behave}", {"behave": behave}, agent_timeout_sec=0.25)
    assert body == failure(f"late {behave}", "workflow exceeded its 0.25s deadline", "timeout")


def test_a_workflow_that_blocks_the_loop_past_its_deadline(server):
    """It is late when it returns."""
    body = server.run("blocks", {"behave": "blocks", "seconds": 0.2}, agent_timeout_sec=0.1)
    assert body == failure("blocks", "workflow exceeded its 0.1s deadline", "timeout")


@pytest.mark.parametrize("limit", [0, -1.5])
def test_no_time_at_all(server, limit):
    """Zero and less mean that the time is already over."""
    body = server.run(f"no time {limit}", agent_timeout_sec=limit)
    assert body["err_category"] == "timeout"


@pytest.mark.parametrize(
    ("grade", "message", "category"),
    [
        ("boom", "grader exploded", "agent_error"),
        ("nothing", "Sample has no reward after grading", "validation_error"),
        ("hang", "grader exceeded its 0.25s deadline", "timeout"),
    ],
)
def test_a_grader_that_fails_keeps_the_sample(server, grade, message, category):
    """Without a reward."""
    rollout_id = f"grader {grade}"
    body = server.run(rollout_id, {"grade": grade}, grader_timeout_sec=0.25 if grade == "hang" else 60)
    assert body == failure(rollout_id, message, category, sample("ok"))


def test_a_nan_reward_fails_the_rollout(server):
    """NaN is no reward (ruling 7)."""
    body = server.run("nan", {"grade": "nan"})
    assert (body["status"], body["err_category"], body["sample"]["reward"]) == ("failure", "validation_error", None)


def test_a_skipped_sample_has_no_reward(server):
    """Even if the grader set one; the trajectory keeps it."""
    body = server.run("skipped", {"grade": "remove"})
    assert body["status"] == "success"
    assert body["sample"] == sample("ok", remove_sample=True, metrics={"accuracy": 1})
    assert json.loads((server.root / "skipped" / "trajectory.json").read_bytes())["extra"]["osmosis"]["reward"] == 1.0


def test_messages_that_json_cannot_hold(server):
    """A minimal sample rather than a lost rollout."""
    body = server.run("object", {"behave": "object"})
    assert body["status"] == "success"
    assert body["sample"] == sample("") | {"messages": [], "reward": 1.0}


def test_metrics_that_json_cannot_hold(server):
    """What cannot be said is left out, on the wire and in the trajectory alike."""
    body = server.run("odd", {"grade": "odd metrics"})
    assert body["sample"]["metrics"] == {"pair": [1, 2], "accuracy": 1}
    stored = json.loads((server.root / "odd" / "trajectory.json").read_bytes())
    assert stored["extra"]["osmosis"]["sample_metrics"] == {"pair": [1, 2], "accuracy": 1}


def test_a_grader_sees_the_rollout_context(server):
    """So that an LLM judge finds the model endpoint."""
    assert server.run("judged", {"grade": "context"})["sample"]["metrics"]["rollout_id"] == "judged"


def test_no_grading_wanted(server):
    """Success without a reward."""
    body = server.run("ungraded", grade=False)
    assert (body["status"], body["sample"]) == ("success", sample("ok"))


def test_grading_wanted_but_nothing_to_grade_against(server):
    """A failure that says why, and keeps the sample. The grader runs if either label or metadata exists, even an empty one."""
    body = server.run("no truth", None, label=None)
    assert (body["status"], body["err_category"]) == ("failure", "validation_error")
    assert "neither a label nor metadata" in body["err_message"]
    assert server.run("empty label", None, label="")["status"] == "success"
    assert server.run("empty metadata", {}, label=None)["status"] == "success"


def test_grading_wanted_but_no_grader(tmp_path):
    """A failure that says why."""
    with rollout_server(tmp_path, backend="ungraded") as server:
        body = server.run("no grader")
        assert (body["status"], body["err_category"]) == ("failure", "validation_error")
        assert "no grader" in body["err_message"]


def test_a_backend_that_lost_track(one_by_one):
    """A status that is not final ends as a failure, so that nobody polls for ever; diagnostics are kept on disk."""
    prompt = [{"role": "user", "content": "unknown"}]
    body = one_by_one.run("lost", initial_messages=prompt)
    assert (body["status"], body["err_category"]) == ("failure", "internal_error")
    assert json.loads((one_by_one.root / "lost" / "diagnostics.json").read_bytes()) == {"attempts": 2}
    assert "extra_fields" not in body


# ---- long polls and leases -----------------------------------------------------------------------------------------------


def test_polls_return_at_each_change_of_status(server, tmp_path, gate):
    """Running to grading, grading to the end: each change answers the poll that waits for it."""
    second = tmp_path / "second"
    os.mkfifo(second)
    asked = {"behave": "gate", "gate": str(gate), "grade": "gate", "grade gate": str(second)}
    server.start("stages", asked)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.poll, "stages")
        gate.write_bytes(b"")
        statuses = [waiting.result().json()["status"]]
        while statuses[-1] != "grading":
            statuses.append(server.status("stages"))
        waiting = pool.submit(server.poll, "stages")
        second.write_bytes(b"")
        final = waiting.result().json()
    assert set(statuses[:-1]) <= {"running"}
    assert final["status"] == "success"


def test_a_poll_ends_after_the_wait(hurried):
    """With the present status and nothing else."""
    hurried.start("waiting", {"behave": "hang"})
    bodies = [hurried.poll("waiting").json() for _ in range(2)]
    hurried.cancel(ids=["waiting"])
    assert bodies[-1] == {
        "rollout_id": "waiting",
        "status": "running",
        "sample": None,
        "err_message": None,
        "err_category": None,
    }


def test_a_rollout_cannot_announce_its_own_end(hurried, gate):
    """A workflow that reports success early is still running until its result is there."""
    hurried.start("early", {"behave": "ends early", "gate": str(gate)})
    statuses = {hurried.status("early") for _ in range(3)}
    gate.write_bytes(b"")
    assert statuses == {"running"}


def test_unknown_ids_and_wrong_tokens(server):
    """404 before 403; the token is needed for finished results too; without the header 422."""
    server.run("guarded")
    unknown, wrong = server.poll("nobody"), server.poll("guarded", token="guess")
    missing, empty = server.http.get("/rollout/guarded/result"), server.poll("guarded", token="")
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "unknown rollout_id"})
    assert (wrong.status_code, wrong.json()) == (403, {"detail": "invalid polling lease"})
    place = {"loc": ["header", "X-Osmosis-Rollout-Lease"]}
    assert (missing.status_code, missing.json()) == (
        422,
        {"detail": [{"type": "missing", **place, "msg": "Field required", "input": None}]},
    )
    assert empty.status_code == 422


def test_an_unpolled_rollout_is_cancelled_when_its_lease_runs_out(tmp_path_factory, gate):
    """Its work is cancelled and its result says why, with the token still needed."""
    root = tmp_path_factory.mktemp("trials")
    with rollout_server(root, result_wait_timeout_sec=0.1, polling_lease_timeout_sec=2.0) as server:
        server.start("alone", {"behave": "hang", "told": str(gate)})
        assert heard(gate) == b"cancelled"
        assert server.poll("alone", token="guess").status_code == 403
        assert server.result("alone") == failure("alone", "polling lease expired", "lease_expired")
        assert not (root / "alone" / "trajectory.json").exists()


def test_polling_renews_the_lease(tmp_path):
    """A rollout that is polled every 0.1 s for 4.5 s outlives its lease of 4 s."""
    lease = 4.0
    with rollout_server(tmp_path, result_wait_timeout_sec=0.1, polling_lease_timeout_sec=lease) as server:
        for attempt in itertools.count():
            server.start(f"kept alive {attempt}", {"behave": "hang"})
            statuses, (begun, pause) = set(), (time.monotonic(), 0.0)
            while time.monotonic() < begun + lease + 0.5:
                before = time.monotonic()
                statuses.add(server.status(f"kept alive {attempt}"))
                pause = max(pause, time.monotonic() - before)
            server.cancel(ids=[f"kept alive {attempt}"])
            # Where the machine stood still for so long, the rollout was not polled in time, and nothing is proved.
            if pause < lease / 2:
                break
    assert statuses == {"running"}


def test_an_id_is_forgotten_and_free_after_its_retention(hurried):
    """404, and then the id may be used again."""
    hurried.start("short", {"behave": "ok"})
    while hurried.poll("short").status_code == 200:
        pass
    assert hurried.poll("short").json() == {"detail": "unknown rollout_id"}
    assert hurried.start("short").status_code == 202


# ---- cancellation --------------------------------------------------------------------------------------------------------


def test_cancel_wakes_the_poll(server):
    """Dispositions for each id; the pending poll hears of it at once; afterwards the rollout is not found."""
    server.run("done")
    server.start("victim", {"behave": "hang"})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.result, "victim")
        answer = server.cancel(ids=["victim", "nobody", "done"])
        final = waiting.result()
    assert answer.json() == {"dispositions": {"victim": "cancelled_running", "nobody": "not_found", "done": "not_found"}}
    assert final == {
        "rollout_id": "victim",
        "status": "cancelled",
        "sample": None,
        "err_message": "cancelled",
        "err_category": None,
    }
    assert server.cancel(ids=["victim"]).json() == {"dispositions": {"victim": "not_found"}}
    assert not (server.root / "victim" / "trajectory.json").exists()


def test_cancel_by_prefix(server):
    """Every known id with that beginning, finished ones too."""
    server.run("batch-1")
    server.start("batch-2", {"behave": "hang"})
    answer = server.cancel(prefix="batch-").json()
    assert answer == {"dispositions": {"batch-1": "not_found", "batch-2": "cancelled_running"}}
    assert server.result("batch-2")["status"] == "cancelled"


@pytest.mark.parametrize("selector", [{}, {"all": False}, {"ids": [], "all": True}, {"ids": ["a"], "prefix": ""}])
def test_cancel_needs_exactly_one_selector(server, selector):
    """422 otherwise."""
    response = server.cancel(**selector)
    assert response.status_code == 422
    assert response.json() == {"detail": "pass exactly one selector: ids, prefix, or all"}


def test_empty_selectors_count(hurried):
    """No ids select nothing, the empty prefix and `all` select everything."""
    assert hurried.cancel(ids=[]).json() == {"dispositions": {}}
    hurried.start("everything", {"behave": "hang"})
    assert "everything" in hurried.cancel(prefix="").json()["dispositions"]
    assert hurried.cancel(all=True).status_code == 200


def test_a_backend_that_cancels_by_itself(one_by_one):
    """Its disposition counts, and its result has no message."""
    one_by_one.start("queued", initial_messages=[])
    assert one_by_one.cancel(ids=["queued"]).json() == {"dispositions": {"queued": "cancelled_queued"}}
    body = one_by_one.result("queued")
    assert (body["status"], body["err_message"]) == ("cancelled", None)


# ---- files ---------------------------------------------------------------------------------------------------------------


def test_what_a_rollout_leaves_behind(server):
    """Marker, artifacts, trajectory and wire sample are complete before the result can be read."""
    body = server.run("files", {"behave": "file"}, extra_fields={"row_index": 0, "run_index": 1})
    directory = server.root / "files"
    assert sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*")) == [
        ".osmosis-health-check",
        "artifacts",
        "artifacts/notes.txt",
        "sample.json",
        "trajectory.json",
    ]
    assert (directory / ".osmosis-health-check").read_bytes() == b"osmosis-health-check"
    assert json.loads((directory / "sample.json").read_bytes()) == body["sample"]
    document = (directory / "trajectory.json").read_bytes()
    trajectory = decode_trajectory(document, "trajectory.json")
    assert (trajectory.extra or {})["osmosis"]["request_extra_fields"] == {"row_index": 0, "run_index": 1}
    assert identity(document) == "files"


def test_a_failed_workflow_leaves_no_trajectory(server):
    """There is no sample to tell of."""
    server.run("no sample", {"behave": "boom"})
    assert not (server.root / "no sample" / "trajectory.json").exists()


# ---- authentication and shutdown -----------------------------------------------------------------------------------------


def test_authentication_guards_every_path(tmp_path):
    """Exactly `Bearer <key>`, on known and unknown paths alike."""
    with rollout_server(tmp_path, api_key="k-1") as server:
        for given in (None, "Bearer k-2", "bearer k-1"):
            for path in ("/health", "/docs", "/nowhere"):
                headers = {} if given is None else {"authorization": given}
                response = server.http.get(path, headers=headers)
                assert (response.status_code, response.json()) == (401, {"detail": "unauthorized"})
        assert server.http.get("/health", headers={"authorization": "Bearer k-1"}).status_code == 200


def test_shutdown_lets_a_running_rollout_finish(tmp_path, gate):
    """SIGTERM waits for work in flight, and what it leaves behind is complete."""
    with rollout_server(tmp_path / "trials") as server:
        server.start("last", {"behave": "gate", "gate": str(gate)})
        server.http.close()
        server.process.send_signal(signal.SIGTERM)
        gate.write_bytes(b"")
        assert server.process.wait(90) in (0, -signal.SIGTERM)
    assert identity((tmp_path / "trials" / "last" / "trajectory.json").read_bytes()) == "last"


@pytest.mark.slow
def test_shutdown_cancels_what_does_not_finish(tmp_path, gate):
    """After ten seconds the rest is cancelled and the server ends."""
    with rollout_server(tmp_path / "trials") as server:
        server.start("endless", {"behave": "hang", "told": str(gate)})
        server.http.close()
        server.process.send_signal(signal.SIGTERM)
        assert heard(gate) == b"cancelled"
        assert server.process.wait(90) in (0, -signal.SIGTERM)


def test_shutdown_closes_the_backend(tmp_path):
    """Once nothing runs any more."""
    with rollout_server(tmp_path, backend="one") as server:
        server.http.close()
        server.process.send_signal(signal.SIGTERM)
        output, _ = server.process.communicate(timeout=90)
        assert output == "backend closed\n"
