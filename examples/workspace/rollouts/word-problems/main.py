"""Word problems, solved by a small model that holds a calculator: the rollout server.

`solver.py` is the agent, `calculator.py` its tool, `grading.py` the grader, `prompts.py` what the model is told.
"""

import os

import uvicorn
from grading import AnswerGrader
from solver import Solver, SolverConfig

from osmosis_ai.rollout import GraderConfig, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server

backend = LocalBackend(
    workflow=Solver,
    workflow_config=SolverConfig(),
    grader=AnswerGrader,
    grader_config=GraderConfig(name="right-number"),
)
app = create_rollout_server(backend=backend)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")), log_level="warning")
