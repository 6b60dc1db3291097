"""Asking the judge: one connection pool, many judgements (issue 7). Calls take the bridge's path: the same sources of answers
(provider or cassette), the same understanding of answers, the same retry policy, cassettes and redaction.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_json
from osmosis.pure.cassette import Header
from osmosis.pure.completion import BAD_GATEWAY, Completion, ProviderError, one_line, read_completion
from osmosis.pure.judge_errors import ProviderRequestError, call_error
from osmosis.pure.judge_model import JudgeModel, judge_endpoint
from osmosis.pure.judge_request import Form, all_forms, first_form, judge_body, reply_text, weaker_form
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.model_prices import call_cost, price_of
from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.retry_policy import BACKOFF_SECONDS, PATIENCE_SECONDS, retry_delay
from osmosis.pure.rubric import Judgement, Prompt, Question, UnusableReply, build_prompt, read_judgement
from osmosis.pure.secret_forms import secret_values
from osmosis.shell.bridge.cassette_file import load_cassette
from osmosis.shell.bridge.recorder import Recorder
from osmosis.shell.bridge.replay import Replay
from osmosis.shell.bridge.source import CallFailed, Rollout, Source
from osmosis.shell.bridge.sources import source_for

BUSY_BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Waits before each further try at a provider that limits the rate: a batch meets that limit again and again."""

BATCH_PATIENCE_SECONDS = 120.0
"""The longest `Retry-After` that a batch waits out; a single call has the bridge's own patience."""

_NOT_RECORDED = frozenset({401, 403, 408, 429})


class Answer(msgspec.Struct, frozen=True):
    """A judgement, and the provider's whole answer that it was read from."""

    judgement: Judgement
    body: bytes

    @property
    def raw(self) -> Any:
        """The provider's answer as decoded JSON."""
        return decode_json(self.body)


class Judge:
    """A model that judges. `usage` counts what it was asked. Use `open_judge`."""

    def __init__(
        self,
        model: JudgeModel,
        endpoint: Endpoint,
        source: Source,
        *,
        environment: Mapping[str, str],
        recorder: Recorder | None = None,
        replaying: bool = False,
        patience: float = PATIENCE_SECONDS,
        backoff: tuple[float, ...] | None = None,
    ) -> None:
        self.usage = JudgeUsage()
        self._price = price_of(endpoint)
        self._model = model
        self._endpoint = endpoint
        self._source = source
        self._environment = environment
        self._recorder = recorder
        self._replaying = replaying
        self._patience = patience
        self._backoff = backoff
        self._form = first_form(model.model, model.reasoning_effort)
        self._rejected: ProviderRequestError | None = None

    @cached_property
    def _redactor(self) -> Redactor:
        return judge_redactor(self._endpoint, self._environment)

    async def ask(self, question: Question, *, row: int = 0, run: int = 0) -> Answer:
        """One judgement. `row` and `run` say which one it is in a cassette.

        Raises ProviderRequestError (ModelNotFoundError among them), and ValueError for metadata that cannot be shown. Once a
        key was rejected, no further call is made with it.
        """
        if self._rejected is not None:
            raise self._rejected
        prompt = build_prompt(question)
        rollout = Rollout(row, run)
        outcome, body = await (self._replayed(rollout, prompt) if self._replaying else self._asked(rollout, prompt))
        if isinstance(outcome, ProviderError):
            raise self._error(outcome)
        try:
            judgement = read_judgement(reply_text(outcome.members["choices"]), question.score_min, question.score_max)
        except UnusableReply as reason:
            detail = one_line(self._redactor.text(str(reason)))
            raise ProviderRequestError(self._model.provider, self._model.model, detail, status=200) from None
        return Answer(judgement, body)

    async def _asked(self, rollout: Rollout, prompt: Prompt) -> tuple[Completion | ProviderError, bytes]:
        form = self._form
        while True:
            outcome, body = await self._sent(rollout, self._request(prompt, form))
            if isinstance(outcome, Completion):
                return outcome, body
            weaker = weaker_form(form, outcome.provider_status, outcome.message)
            if weaker is None:
                return outcome, body
            # Other calls begin with what this one learned, unless they have learned more meanwhile.
            self._form = weaker if self._form == form else self._form
            form = weaker

    async def _replayed(self, rollout: Rollout, prompt: Prompt) -> tuple[Completion | ProviderError, bytes]:
        """The recorded answer, under whichever form it was given. What a model refused before says nothing without one."""
        refusal: tuple[ProviderError, bytes] | None = None
        missing: tuple[ProviderError, bytes] | None = None
        for form in all_forms(first_form(self._model.model, self._model.reasoning_effort)):
            outcome, body = await self._once(rollout, self._request(prompt, form))
            if isinstance(outcome, Completion):
                return outcome, body
            if outcome.provider_status is not None:
                refusal = (outcome, body)
            missing = missing or (outcome, body)
        found = refusal or missing
        assert found is not None  # there is at least one form
        return found

    def _request(self, prompt: Prompt, form: Form) -> UpstreamRequest:
        body = judge_body(prompt, self._endpoint.model, form, self._model.reasoning_effort)
        return UpstreamRequest(body, self._model.path, stream=False, wants_usage=False)

    async def _sent(self, rollout: Rollout, request: UpstreamRequest) -> tuple[Completion | ProviderError, bytes]:
        tries = 0
        while True:
            tries += 1
            try:
                outcome, body = await self._once(rollout, request)
            except TimeoutError:
                self.usage = self.usage.after_refusal()
                return ProviderError(BAD_GATEWAY, f"no answer within {self._model.timeout:g} s"), b""
            if isinstance(outcome, Completion) or (delay := self._delay(tries, outcome)) is None:
                self._record(rollout, request, outcome, body)
                return outcome, body
            await asyncio.sleep(delay)

    async def _once(self, rollout: Rollout, request: UpstreamRequest) -> tuple[Completion | ProviderError, bytes]:
        try:
            async with asyncio.timeout(self._model.timeout), self._source.open(rollout, request) as reply:
                body = await reply.read()
        except CallFailed as failure:
            if not self._replaying:
                self.usage = self.usage.after_refusal()
            return failure.error, b""
        outcome = read_completion(reply.status, body, reply.retry_after)
        if isinstance(outcome, Completion):
            cost = call_cost(self._endpoint, self._price, outcome.usage, outcome.details)
            self.usage = self.usage.after_completion(outcome.usage, cost)
        else:
            self.usage = self.usage.after_refusal()
        return outcome, body

    def _delay(self, tries: int, error: ProviderError) -> float | None:
        usual = BUSY_BACKOFF_SECONDS if error.provider_status == 429 else BACKOFF_SECONDS
        return retry_delay(
            tries,
            error.provider_status,
            error.retry_after,
            now=datetime.now(UTC),
            jitter=random.random(),  # noqa: S311 - spreads retries, guards nothing
            backoff=usual if self._backoff is None else self._backoff,
            patience=self._patience,
        )

    def _record(self, rollout: Rollout, request: UpstreamRequest, outcome: Completion | ProviderError, body: bytes) -> None:
        if self._recorder is None:
            return
        if isinstance(outcome, Completion):
            self._recorder.record(rollout, request, status=200, body=body, usage=outcome.usage)
        elif (status := outcome.provider_status) is not None and 400 <= status < 500 and status not in _NOT_RECORDED:
            self._recorder.record(rollout, request, status=status, body=body)

    def _error(self, error: ProviderError) -> ProviderRequestError:
        known = call_error(self._model.provider, self._model.model, error, self._redactor.text(error.message))
        if error.key_rejected:
            self._rejected = known
        return known


def judge_redactor(endpoint: Endpoint, environment: Mapping[str, str]) -> Redactor:
    """Takes the judge's key and the known secrets of the environment out of texts."""
    return Redactor(secret_values([endpoint.api_key] if endpoint.api_key else [], environment))


def open_source(endpoint: Endpoint) -> Source:
    """Where the judge's answers come from."""
    # Retries are the judge's own: it has more patience with a busy provider than a rollout's call may have.
    return source_for(endpoint, backoff=())


@asynccontextmanager
async def open_judge(
    model: JudgeModel,
    *,
    environment: Mapping[str, str] | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    patience: float = PATIENCE_SECONDS,
    backoff: tuple[float, ...] | None = None,
) -> AsyncIterator[Judge]:
    """A judge while the context lasts. `record` keeps its calls in a cassette, `replay` answers from one and calls nothing.

    Raises MissingAPIKeyError and ProviderRequestError for a model that cannot be called, OsmosisError for a cassette that
    cannot be read or written, ValueError for `record` together with `replay`.
    """
    if record is not None and replay is not None:
        raise ValueError("record and replay exclude each other")
    variables = os.environ if environment is None else environment
    endpoint = judge_endpoint(model, variables, replay=replay is not None)
    if replay is None:
        source = open_source(endpoint)
    else:
        cassette = load_cassette(replay)
        source = Replay(cassette)
        # A replay costs what its recording did, whatever variables are set today.
        endpoint = msgspec.structs.replace(endpoint, base_url=cassette.header.recorded_from.rstrip("/"))
    recorder: Recorder | None = None
    try:
        if record is not None:
            header = Header(model.path, endpoint.base_url, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            recorder = Recorder(record, header, judge_redactor(endpoint, variables))
        yield Judge(
            model,
            endpoint,
            source,
            environment=variables,
            recorder=recorder,
            replaying=replay is not None,
            patience=patience,
            backoff=backoff,
        )
    finally:
        await source.close()
        if recorder is not None:
            recorder.close()
    if recorder is not None and recorder.error is not None:
        raise recorder.error
