"""The rollouts of one server: admission, repetition, execution, completion (contract `legacy_api.md` section 7.3).

A request is admitted once. A repetition under the same key finds the first answer, while the rollout runs and for
`record_ttl_seconds` after its end. Old records go whenever a request comes in, so an idle server needs no timer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from osmosis.pure.reward_signature import check_reward
from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop, RolloutContext, RolloutResult
from osmosis.shell.remote_rollout.errors import OsmosisValidationError
from osmosis.shell.remote_rollout.llm_client import OsmosisLLMClient
from osmosis.shell.remote_rollout.schemas import InitResponse, OpenAIFunctionToolSchema, RolloutRequest, RolloutStatus
from osmosis.shell.remote_rollout.settings import RolloutSettings

logger = logging.getLogger(__name__)


@dataclass
class _Record:
    response: InitResponse
    ended_at: float | None = None


class Rollouts:
    """Admits and runs rollouts of one agent loop. Must be used inside one event loop. `clock` gives seconds."""

    def __init__(
        self,
        loop: RolloutAgentLoop,
        settings: RolloutSettings,
        *,
        max_concurrent: int,
        record_ttl_seconds: float,
        debug_dir: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._slots = asyncio.Semaphore(max_concurrent)
        self._record_ttl_seconds = record_ttl_seconds
        self._debug_dir = debug_dir
        self._clock = clock
        self._records: dict[str, _Record] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> int:
        """Rollouts that were admitted and have not ended."""
        return len(self._tasks)

    @property
    def completed(self) -> int:
        """Ended rollouts that are still remembered."""
        self._forget_old()
        return sum(record.ended_at is not None for record in self._records.values())

    def admit(self, request: RolloutRequest) -> InitResponse:
        """Begin a rollout, or find the answer that an equal request got. Nothing begins if `get_tools` raises."""
        self._forget_old()
        key = request.idempotency_key or request.rollout_id
        if (known := self._records.get(key)) is not None:
            return known.response
        tools = self._loop.get_tools(request)
        response = InitResponse(rollout_id=request.rollout_id, tools=tools)
        record = self._records[key] = _Record(response)
        task = asyncio.get_running_loop().create_task(self._execute(request, tools, record), name=request.rollout_id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return response

    async def shutdown(self) -> None:
        """Cancel what runs, without telling the trainer, which notices by its own timeout."""
        for task in self._tasks:
            task.cancel()
        await self.finished()

    async def finished(self) -> None:
        """Return once every rollout that runs now has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget_old(self) -> None:
        oldest = self._clock() - self._record_ttl_seconds
        for key in [key for key, record in self._records.items() if record.ended_at is not None and record.ended_at <= oldest]:
            del self._records[key]

    async def _execute(self, request: RolloutRequest, tools: list[OpenAIFunctionToolSchema], record: _Record) -> None:
        try:
            async with self._slots:
                await self._run(request, tools)
        except Exception:
            logger.exception("The end of rollout %s could not be reported", request.rollout_id)
        finally:
            record.ended_at = self._clock()

    async def _run(self, request: RolloutRequest, tools: list[OpenAIFunctionToolSchema]) -> None:
        client = OsmosisLLMClient(request.server_url, request.rollout_id, request.api_key, settings=self._settings)
        async with client:
            context = RolloutContext(
                request=request, tools=tools, llm=client, _start_time=time.monotonic(), _debug_dir=self._debug_dir
            )
            try:
                result = await self._loop.run(context)
                _check_result(result)
            except Exception as error:
                logger.warning("Rollout %s failed", request.rollout_id, exc_info=error)
                await _report_error(client, error)
                return
            try:
                await _report(client, result)
            except (OsmosisValidationError, ValueError, TypeError) as error:
                # The trainer cannot take this result, or JSON cannot; it should not wait for it. After any other failure it
                # may have got it all the same, and an error behind a success would contradict it.
                logger.warning("The result of rollout %s was refused", request.rollout_id, exc_info=error)
                await _report_error(client, error)


def _check_result(result: object) -> None:
    if not isinstance(result, RolloutResult):
        name = type(result).__name__
        raise TypeError(f"run() must return ctx.complete(...) or ctx.error(...), got {name}")
    if result.reward is not None:
        check_reward("run", result.reward)


async def _report(client: OsmosisLLMClient, result: RolloutResult) -> None:
    await client.complete_rollout(
        result.status,
        result.final_messages,
        finish_reason=result.finish_reason,
        error_message=result.error_message,
        metrics=result.metrics,
        reward=result.reward,
    )


async def _report_error(client: OsmosisLLMClient, error: Exception) -> None:
    message = str(error) or type(error).__name__
    await client.complete_rollout(RolloutStatus.ERROR, [], finish_reason="error", error_message=message)
