"""What goes over the wire between a trainer and an agent loop's server, as pydantic models (`legacy_api.md` section 6).

Users construct and subclass these, hence pydantic (ruling 24). Unknown fields of a request are ignored, as they always were.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator

MessageDict = dict[str, Any]
SamplingParamsDict = dict[str, Any]

DEFAULT_MAX_METADATA_SIZE_BYTES = 1024 * 1024
ROLLOUT_ID_LENGTH = 256


class _MetadataLimit:
    """The largest metadata that a request may carry, for the whole process."""

    size_bytes = DEFAULT_MAX_METADATA_SIZE_BYTES


def get_max_metadata_size_bytes() -> int:
    """The largest `metadata` of a request, in bytes of JSON."""
    return _MetadataLimit.size_bytes


def set_max_metadata_size_bytes(size: int) -> None:
    """Change the largest `metadata` of a request. Raises ValueError unless it is above 0."""
    if size <= 0:
        raise ValueError("the size must be above 0")
    _MetadataLimit.size_bytes = size


def _rollout_id(value: str) -> str:
    if not value.strip():
        raise ValueError("rollout_id cannot be empty or whitespace only")
    return value


class RolloutRequest(BaseModel):
    """A trainer's request to begin a rollout. `api_key` is what the trainer expects of us; no `repr` shows it."""

    rollout_id: str = Field(min_length=1, max_length=ROLLOUT_ID_LENGTH)
    server_url: str
    messages: list[MessageDict]
    completion_params: SamplingParamsDict
    tool_server_url: str | None = None
    max_turns: int = 10
    max_tokens_total: int = 8192
    metadata: dict[str, Any] = Field(default_factory=dict)
    api_key: str | None = Field(default=None, repr=False)
    idempotency_key: str | None = None

    _not_blank = field_validator("rollout_id")(_rollout_id)

    @field_validator("server_url")
    @classmethod
    def _http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https"):
            raise ValueError("server_url must use http or https scheme")
        if not parts.hostname:
            raise ValueError("server_url must include a host")
        return value

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            size = len(json.dumps(value).encode("utf-8", "surrogatepass"))
        except (TypeError, ValueError, RecursionError):
            raise ValueError("metadata must be JSON-serializable") from None
        if size > _MetadataLimit.size_bytes:
            raise ValueError(f"metadata is {size} bytes, more than {_MetadataLimit.size_bytes}")
        return value


class OpenAIFunctionPropertySchema(BaseModel):
    """One parameter of a tool."""

    type: str
    description: str | None = None
    enum: list[str] | None = None


class OpenAIFunctionParametersSchema(BaseModel):
    """The parameters of a tool."""

    type: str
    properties: dict[str, OpenAIFunctionPropertySchema]
    required: list[str]


def _no_parameters() -> OpenAIFunctionParametersSchema:
    return OpenAIFunctionParametersSchema(type="object", properties={}, required=[])


class OpenAIFunctionSchema(BaseModel):
    """A tool's function."""

    name: str
    description: str
    parameters: OpenAIFunctionParametersSchema = Field(default_factory=_no_parameters)
    strict: bool = False


class OpenAIFunctionToolSchema(BaseModel):
    """A tool that the model may call."""

    type: str
    function: OpenAIFunctionSchema


class OpenAIFunctionParsedSchema(BaseModel):
    """A call as a model wrote it: `arguments` is JSON text."""

    name: str
    arguments: str


class OpenAIFunctionCallSchema(BaseModel):
    """A call with its arguments read."""

    name: str
    arguments: dict[str, Any]

    @staticmethod
    def from_openai_function_parsed_schema(parsed: OpenAIFunctionParsedSchema) -> tuple[OpenAIFunctionCallSchema, bool]:
        """The call, and whether its arguments could not be read, in which case they are empty."""
        try:
            arguments = json.loads(parsed.arguments)
        except (ValueError, RecursionError):
            arguments = None
        failed = not isinstance(arguments, dict)
        return OpenAIFunctionCallSchema(name=parsed.name, arguments={} if failed else arguments), failed


class OpenAIFunctionToolCall(BaseModel):
    """One entry of a message's `tool_calls`."""

    id: str
    type: str = "function"
    function: OpenAIFunctionCallSchema


class ToolResponse(BaseModel):
    """What a tool gave back."""

    text: str | None = None
    image: list[Any] | None = None
    video: list[Any] | None = None

    @field_validator("image", "video", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, list):
            raise ValueError(f"must be a list, got {type(value).__name__}")
        return value

    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self.text and not self.image and not self.video

    def is_text_only(self) -> bool:
        """Whether there is text and nothing else."""
        return bool(self.text) and not self.image and not self.video


class InitResponse(BaseModel):
    """The answer to a request: the tools that the model may call. Nulls are written, as they always were."""

    rollout_id: str
    tools: list[OpenAIFunctionToolSchema] = Field(default_factory=list)


class RolloutStatus(StrEnum):
    """How a remote rollout ended."""

    COMPLETED = "COMPLETED"
    ERROR = "ERROR"


class RolloutMetrics(BaseModel):
    """Times in milliseconds, and counts, of one rollout."""

    total_latency_ms: float = 0.0
    llm_latency_ms: float = 0.0
    tool_latency_ms: float = 0.0
    num_llm_calls: int = 0
    num_tool_calls: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    max_context_tokens: int = 0


class RolloutResponse(BaseModel):
    """What is posted to the trainer when a rollout has ended. Nulls are left out."""

    rollout_id: str = Field(min_length=1, max_length=ROLLOUT_ID_LENGTH)
    status: RolloutStatus
    final_messages: list[MessageDict] = Field(default_factory=list)
    finish_reason: str | None = None
    error_message: str | None = None
    reward: float | None = Field(default=None, allow_inf_nan=False)
    metrics: RolloutMetrics | None = None
    extra_fields: dict[str, Any] = Field(default_factory=dict)


class CompletionsRequest(BaseModel):
    """What is posted to the trainer for one turn of the model: the whole history so far. Nulls are left out."""

    model: str = "default"
    messages: list[MessageDict]
    rollout_id: str = Field(min_length=1, max_length=ROLLOUT_ID_LENGTH)
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: list[str] | None = None
    logprobs: bool = True

    _not_blank = field_validator("rollout_id")(_rollout_id)


class CompletionUsage(BaseModel):
    """Tokens of one turn."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class CompletionsChoice(BaseModel):
    """The model's message."""

    index: int = 0
    message: MessageDict
    finish_reason: str = "stop"


class CompletionsResponse(BaseModel):
    """A trainer's answer to one turn."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str = "default"
    choices: list[CompletionsChoice]
    usage: CompletionUsage | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    prompt_token_ids: list[int] | None = None
