"""Reward functions: at decoration, in a call, as a grader, as a trainer's callable (A1, A2; issue 7, must-show 5)."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import subprocess
import sys
import textwrap
import threading
from fractions import Fraction
from typing import Any, Optional

import pytest

import osmosis_ai
from osmosis.shell.rollout.types.execution import ExecutionRequest
from osmosis_ai import evaluate_rubric, evaluate_rubric_async, osmosis_reward, osmosis_rubric, reward_grader, trainer_reward
from osmosis_ai.rollout import AgentWorkflow, AgentWorkflowContext, LocalBackend, RolloutStatus
from osmosis_ai.testing import FakeModelServer, grader_context, judge_reply

REWARD = "(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float"
RUBRIC = "(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float"
PREAMBLE = "from typing import Any, Dict, Optional, Union\nimport typing\n"


def define(signature: str, *, future: bool = False, body: str = "1.0", kind: str = "def") -> Any:
    """The function `reward` of that signature, defined as a module would define it."""
    source = f"{PREAMBLE}{kind} reward{signature}:\n    return {body}\n"
    namespace: dict[str, Any] = {}
    flags = __import__("__future__").annotations.compiler_flag if future else 0
    exec(compile(source, "<test>", "exec", flags=flags, dont_inherit=True), namespace)
    return namespace["reward"]


GOOD_REWARDS = [
    REWARD,
    REWARD.replace("dict = None", "dict | None = None"),
    REWARD.replace("dict = None", "Optional[dict] = None"),
    REWARD.replace("dict = None", "Dict[str, Any] = None"),
    REWARD.replace("dict = None", "dict[str, Any] | None = None"),
    REWARD.replace(" -> float", ""),
    REWARD.replace("float", "int"),
    "(solution_str: 'str', ground_truth: 'str', extra_info: 'dict | None' = None, weight: float = 2.0, **kwargs) -> 'float'",
    "(solution_str: str, ground_truth: str, extra_info: dict = None, *rest, flag: bool = False, **anything)",
    "(solution_str: str, ground_truth: str, extra_info: dict = None, data: 'Unheard' = None, **kwargs) -> float",
]
GOOD_RUBRICS = [
    RUBRIC,
    RUBRIC.replace("str | None", "Optional[str]"),
    RUBRIC.replace("str | None", "Union[str, None]"),
    RUBRIC.replace("str | None", "str"),
    RUBRIC.replace("extra_info: dict", "extra_info"),
    RUBRIC.replace("extra_info: dict", "extra_info: dict = None"),
]


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize(
    ("decorator", "signature"),
    [*((osmosis_reward, one) for one in GOOD_REWARDS), *((osmosis_rubric, one) for one in GOOD_RUBRICS)],
)
def test_the_documented_signature_is_accepted(decorator, signature, future):
    """In each of its spellings, with annotations as objects and as text."""
    function = define(signature, future=future)
    decorated = decorator(function)
    assert decorated.__name__ == "reward"
    assert decorated.__wrapped__ is function
    assert inspect.signature(decorated) == inspect.signature(function)
    assert decorated("a", "b", {}) == 1.0


DEFAULTS = "(solution_str: str = '', ground_truth: str | None = None, extra_info: dict = None, **kwargs) -> float"
BAD = [
    (osmosis_reward, "()", "at least 3 parameters"),
    (osmosis_reward, "(solution_str: str, ground_truth: str, **kwargs) -> float", "at least 3 parameters"),
    (osmosis_reward, REWARD.replace("solution_str", "solution"), "must be named 'solution_str', got 'solution'"),
    (osmosis_reward, REWARD.replace("ground_truth", "truth"), "must be named 'ground_truth', got 'truth'"),
    (osmosis_reward, REWARD.replace("extra_info", "extra"), "must be named 'extra_info', got 'extra'"),
    (osmosis_reward, REWARD.replace("solution_str: str", "solution_str"), "'solution_str' must be annotated as str, got no"),
    (osmosis_reward, REWARD.replace("solution_str: str", "solution_str: bytes"), "annotated as str, got bytes"),
    (osmosis_reward, REWARD.replace("ground_truth: str", "ground_truth: str | None"), "annotated as str, got str | None"),
    (osmosis_reward, REWARD.replace("dict = None", "list = None"), "annotated as dict or dict | None, got list"),
    (osmosis_reward, REWARD.replace("dict = None", "'Unheard' = None"), "dict or dict | None, got Unheard"),
    (osmosis_reward, REWARD.replace("= None", ""), "'extra_info' must have the default None, got none"),
    (osmosis_reward, REWARD.replace("= None", "= {}"), "'extra_info' must have the default None, got {}"),
    (osmosis_reward, REWARD.replace(", **kwargs", ""), "must accept **kwargs"),
    (osmosis_reward, REWARD.replace("float", "str"), "must return float, not str"),
    (osmosis_reward, REWARD.replace("float", "Optional[float]"), "must return float, not"),
    (osmosis_reward, REWARD.replace("**kwargs", "needed, **kwargs").replace("= None", ""), "'needed' needs a default"),
    (osmosis_reward, REWARD.replace("**kwargs", "*, needed, **kwargs"), "'needed' needs a default"),
    (osmosis_reward, REWARD.replace("extra_info: dict = None", "extra_info: dict = None, /"), "positional-only"),
    (osmosis_rubric, DEFAULTS, "'solution_str' must not have a default"),
    (osmosis_rubric, DEFAULTS, "'ground_truth' must not have a default"),
    (osmosis_rubric, RUBRIC.replace("str | None", "None"), "'ground_truth' must be annotated as str | None or str, got None"),
    (osmosis_rubric, RUBRIC.replace("str | None", "str | int"), "annotated as str | None or str, got"),
    (osmosis_rubric, RUBRIC.replace("dict", "list"), "'extra_info' must be annotated as dict, got list"),
    (osmosis_rubric, RUBRIC.replace(", **kwargs", ""), "must accept **kwargs"),
]


@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize(("decorator", "signature", "message"), BAD)
def test_another_signature_is_refused_with_both_signatures(decorator, signature, message, future):
    """A TypeError at decoration says what is wrong and shows the expected and the found signature."""
    with pytest.raises(TypeError) as caught:
        decorator(define(signature, future=future))
    text = str(caught.value)
    assert message in text
    assert f"expected: reward{REWARD if decorator is osmosis_reward else RUBRIC}" in text
    assert "found:    reward(" in text


def test_all_problems_are_told_at_once():
    """One error lists each of them."""
    with pytest.raises(TypeError) as caught:
        osmosis_reward(define("(a, b: int, extra_info: dict = {}) -> str"))
    assert str(caught.value).count("\n  - ") == 5


@pytest.mark.parametrize("thing", [None, 5, "x", dict])
def test_what_is_no_function(thing):
    """The decorators take a function and nothing else."""
    with pytest.raises(TypeError, match="decorates a function"):
        osmosis_reward(thing)


def test_generators_are_refused():
    """A function that yields returns no float."""
    with pytest.raises(TypeError, match="not yield"):
        osmosis_reward(define(REWARD, body="(yield)"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [("0.25", 0.25), ("1", 1.0), ("-3", -3.0), ("kwargs['value']", 0.75)],
)
def test_a_number_is_a_reward(body, expected):
    """Integers and the numbers of other libraries become floats."""
    reward = osmosis_reward(define(REWARD, body=body))("a", "b", value=Fraction(3, 4))
    assert (type(reward), reward) == (float, expected)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("True", TypeError, "must return a float, got bool"),
        ("None", TypeError, "must return a float, got NoneType"),
        ("'1'", TypeError, "must return a float, got str"),
        ("float('nan')", ValueError, "must return a finite float, got nan"),
        ("float('-inf')", ValueError, "must return a finite float, got -inf"),
        ("10 ** 400", ValueError, "must return a finite float"),
    ],
)
async def test_anything_else_is_no_reward(body, kind, message):
    """Booleans, None, text, NaN and infinities are refused, also from async functions."""
    for decorator, signature in ((osmosis_reward, REWARD), (osmosis_rubric, RUBRIC)):
        with pytest.raises(kind, match=message):
            decorator(define(signature, body=body))("a", "b", {})
        with pytest.raises(kind, match=message):
            await decorator(define(signature, body=body, kind="async def"))("a", "b", {})


async def test_async_functions_stay_async():
    """A decorated coroutine function is one."""
    decorated = osmosis_reward(define(REWARD, kind="async def"))
    assert inspect.iscoroutinefunction(decorated)
    assert await decorated("a", "b") == 1.0


def test_a_rubric_function_checks_what_it_is_called_with():
    """Text, and text or None; what is missing is Python's own complaint."""
    decorated = osmosis_rubric(define(RUBRIC))
    assert decorated("a", None, {}) == 1.0
    with pytest.raises(TypeError, match="'solution_str' to be a str, got int"):
        decorated(5, None, {})
    with pytest.raises(TypeError, match="'ground_truth' to be a str or None, got int"):
        decorated("a", 5, {})
    with pytest.raises(TypeError, match="extra_info"):
        decorated("a", None)


@osmosis_reward
def exact_match(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float:  # type: ignore[assignment]  # noqa: RUF013
    """The document's own example."""
    return 1.0 if solution_str.strip() == ground_truth.strip() else 0.0


@osmosis_rubric
def judged(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float:
    """A judge, asked synchronously."""
    return evaluate_rubric("Is it right?", solution_str, {"provider": "openai", "model": "m"}, ground_truth=ground_truth)


@osmosis_rubric
async def judged_async(solution_str: str, ground_truth: Optional[str], extra_info: dict, **kwargs) -> float:  # noqa: UP045
    """The same, asked asynchronously."""
    score = await evaluate_rubric_async("Is it right?", solution_str, {"provider": "openai", "model": "m"})
    assert isinstance(score, float)
    return score


class Says(AgentWorkflow[Any]):
    """Answers every prompt with its own text."""

    async def run(self, ctx: AgentWorkflowContext[Any]) -> Any:
        """Prompt in, prompt out."""
        return [*ctx.prompt, {"role": "assistant", "content": ctx.prompt[-1]["content"]}]


@pytest.fixture
def model(monkeypatch):
    """A judge that gives 0.5, found through the usual variables."""
    with FakeModelServer(judge_reply(0.5)) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize("grader", [exact_match, f"{__name__}:exact_match", reward_grader(exact_match)])
@pytest.mark.parametrize(("answer", "reward"), [("4", 1.0), ("5", 0.0)])
async def test_a_reward_function_is_a_grader(grader, answer, reward):
    """A rollout is graded by the function itself, by its name, or by the grader made of it."""
    backend = LocalBackend(workflow=Says, grader=grader)
    request = ExecutionRequest(id="r", prompt=[{"role": "user", "content": answer}], label="4")
    outcome = await backend.execute(request)
    assert outcome.grader is not None
    assert outcome.grader.sample is not None
    assert (outcome.grader.status, outcome.grader.sample.reward) == (RolloutStatus.SUCCESS, reward)


@pytest.mark.parametrize("grader", [judged, judged_async])
async def test_a_judge_is_a_grader(model, grader):
    """A rubric function grades inside the server's running event loop, blocking or not, and several at once."""
    backend = LocalBackend(workflow=Says, grader=grader)
    requests = [ExecutionRequest(id=str(number), prompt=[{"role": "user", "content": "x"}], label="4") for number in range(4)]
    outcomes = await asyncio.gather(*map(backend.execute, requests))
    samples = [outcome.grader.sample for outcome in outcomes if outcome.grader is not None]
    assert [sample.reward for sample in samples if sample is not None] == [0.5] * 4
    assert len(model.requests) == 4


async def test_blocking_graders_do_not_stop_the_event_loop():
    """A function that waits, waits in a thread: two that wait for each other both end."""
    barrier = threading.Barrier(2, timeout=600)

    @osmosis_reward
    def meets(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float:  # type: ignore[assignment]  # noqa: RUF013
        barrier.wait()
        return 1.0

    grader = reward_grader(meets)
    contexts = [grader_context("a", "b"), grader_context("a", "b")]
    await asyncio.gather(*(grader().grade(context) for context in contexts))
    assert [context.sample.reward for context in contexts if context.sample is not None] == [1.0, 1.0]


async def test_what_a_graders_function_gets():
    """The last text of the assistant, the label or the metadata's ground truth, and the metadata."""
    seen: list[Any] = []

    @osmosis_rubric
    def look(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float:
        seen.append((solution_str, ground_truth, extra_info))
        return 0.0

    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "first"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "content": "4"},
    ]
    await reward_grader(look)().grade(grader_context(messages, "t", metadata={"k": 1}))
    await reward_grader(look)().grade(grader_context([], metadata={"ground_truth": "m"}))
    await reward_grader(look)().grade(grader_context("x"))
    assert seen == [("a\nb", "t", {"k": 1}), ("", "m", {"ground_truth": "m"}), ("x", None, {})]
    with pytest.raises(ValueError, match="needs a ground truth"):
        await reward_grader(exact_match)().grade(grader_context("x"))
    with pytest.raises(TypeError, match="no reward function"):
        reward_grader(lambda *_: 1.0)


def test_a_trainer_gets_a_list_of_floats():
    """Texts or conversations and columns in, one float a completion out, under the function's name."""
    reward = trainer_reward(exact_match)
    assert reward.__name__ == "exact_match"
    assert reward(prompts=["p", "q"], completions=["4", "5"], ground_truth=["4", "4"]) == [1.0, 0.0]
    conversations = [[{"role": "assistant", "content": "4"}], [{"role": "assistant", "content": "5"}]]
    assert reward(conversations, ground_truth=("5", "5"), trainer_state=object()) == [0.0, 1.0]
    assert trainer_reward(exact_match, ground_truth="answer")(["4"], answer=["4"]) == [1.0]
    assert reward([], ground_truth=[]) == []


def test_a_trainers_columns_reach_the_function():
    """Every other column, and the prompt, stand in extra_info; a rubric function needs no ground truth."""
    seen: list[Any] = []

    @osmosis_rubric
    def look(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float:
        seen.append((solution_str, ground_truth, extra_info))
        return 0

    assert trainer_reward(look, max_in_flight=1)(["a", "b"], prompts=["p", "q"], level=[1, 2]) == [0.0, 0.0]
    assert seen == [("a", None, {"level": 1, "prompt": "p"}), ("b", None, {"level": 2, "prompt": "q"})]


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({}, ValueError, "no column 'ground_truth'"),
        ({"ground_truth": ["4"]}, ValueError, r"not as long as the 2 completions: ground_truth \(1\)"),
        ({"ground_truth": ["4", "4"], "x": [1, 2, 3]}, ValueError, r"x \(3\)"),
        ({"ground_truth": ["4", 4]}, TypeError, "'ground_truth' must hold text, row 1 has int"),
    ],
)
def test_columns_that_do_not_fit(columns, kind, message):
    """Each is an error before the function is called."""
    with pytest.raises(kind, match=message):
        trainer_reward(exact_match)(["4", "5"], **columns)


@pytest.mark.parametrize("function", [judged, judged_async])
def test_a_judge_in_a_trainer(model, function):
    """Rubric functions judge a batch at once, within the bound; the order stays."""
    model._replies = lambda body: judge_reply(float("0." + body["messages"][1]["content"].count("#") * "1" or "0"))
    completions = ["#" * (number % 3) + "x" for number in range(12)]
    scores = trainer_reward(function, max_in_flight=4)(completions, ground_truth=["t"] * 12)
    assert scores == [[0.0, 0.1, 0.11][number % 3] for number in range(12)]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_failure_names_its_row(kind):
    """What the function raises is raised, with the row in a note."""
    function = osmosis_reward(define(REWARD, body="1.0 / (solution_str != 'bad')", kind=kind))
    with pytest.raises(ZeroDivisionError) as caught:
        trainer_reward(function)(["ok", "bad"], ground_truth=["", ""])
    assert caught.value.__notes__ == ["row 1 of the batch"]
    with pytest.raises(TypeError, match="no reward function"):
        trainer_reward(lambda *_: 1.0)
    with pytest.raises(ValueError, match="max_in_flight"):
        trainer_reward(function, max_in_flight=0)


HEAVY = ("litellm", "pydantic", "httpx", "aiohttp", "fastapi", "polars", "msgspec", "asyncio", "osmosis.shell", "osmosis.pure")
REWARD_PROGRAM = """
    from osmosis_ai import osmosis_reward

    @osmosis_reward
    def f(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float:
        return 1.0
    """


@pytest.mark.parametrize(
    ("program", "allowed", "most"),
    [
        ("import osmosis_ai", (), 60),
        (REWARD_PROGRAM, ("msgspec", "asyncio", "osmosis.shell", "osmosis.pure"), 250),
        (
            "from osmosis_ai import evaluate_rubric, evaluate_rubric_async, evaluate_rubrics, MissingAPIKeyError",
            ("msgspec", "asyncio", "osmosis.shell", "osmosis.pure"),
            350,
        ),
    ],
)
def test_importing_brings_only_what_is_used(program, allowed, most):
    """`import osmosis_ai` loads nothing of ours; decorators and judges load no HTTP client, pydantic or LiteLLM."""
    code = (
        f"import sys\n{textwrap.dedent(program)}\nprint(len(sys.modules), *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=600)
    count, *heavy = finished.stdout.split()
    assert set(heavy) <= set(allowed)
    bare = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(len(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert int(count) - int(bare.stdout) <= most


LEGACY_NAMES = """
    __version__ osmosis_reward osmosis_rubric evaluate_rubric MissingAPIKeyError ProviderRequestError ModelNotFoundError
    RolloutAgentLoop RolloutContext RolloutResult RolloutRequest RolloutResponse RolloutMetrics InitResponse
    OpenAIFunctionToolSchema CompletionsResult OsmosisLLMClient create_app register_agent_loop get_agent_loop list_agent_loops
    OsmosisRolloutError OsmosisTransportError OsmosisServerError OsmosisValidationError OsmosisTimeoutError
"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("osmosis_ai", LEGACY_NAMES),
        ("osmosis_ai.utils", "osmosis_reward osmosis_rubric"),
        (
            "osmosis_ai.rubric_types",
            "ModelInfo RewardRubricRunResult MissingAPIKeyError ProviderRequestError ModelNotFoundError",
        ),
        ("osmosis_ai.rubric_eval", "evaluate_rubric ensure_api_key_available ModelInfo DEFAULT_REQUEST_TIMEOUT_SECONDS"),
        ("osmosis_ai.eval.rubric", "evaluate_rubric RubricResult MissingAPIKeyError ProviderRequestError ModelNotFoundError"),
        ("osmosis_ai.eval.rubric.types", "RubricResult MissingAPIKeyError"),
        ("osmosis_ai.testing", "FakeModelServer FakeTrainer grader_context loop_context create_mock_trainer_app"),
    ],
)
def test_every_documented_name_is_where_code_imports_it(module, names):
    """The export list of the documented API, and the modules that real projects import from."""
    loaded = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(loaded, name)] == []


def test_everything_that_is_exported_exists():
    """`__all__` promises nothing that cannot be imported, and a type checker sees the same names."""
    assert [name for name in osmosis_ai.__all__ if not hasattr(osmosis_ai, name)] == []
    assert dir(osmosis_ai) == sorted(osmosis_ai.__all__)


JUDGE = "evaluate_rubric('r', 's', {'provider': 'openai', 'model': 'm', 'api_key': 'k'})"


@pytest.mark.parametrize(
    ("missing", "program", "advice"),
    [
        (
            "fastapi",
            "from osmosis_ai import create_app",
            "create_app needs the extra 'remote-rollout': pip install \"osmosis-ai[",
        ),
        (
            "aiohttp",
            f"from osmosis_ai import evaluate_rubric; {JUDGE}",
            "needs the extra 'rubric': pip install \"osmosis-ai[rubric]\"",
        ),
    ],
)
def test_a_missing_extra_is_named_with_its_command(missing, program, advice):
    """What an extra brings is asked for when it is used, with the command that installs it."""
    code = f"import sys; sys.modules[{missing!r}] = None\n{program}"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert finished.returncode != 0
    assert advice in finished.stderr.strip().splitlines()[-1]
