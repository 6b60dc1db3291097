"""Trajectory documents of rollouts."""

from osmosis.shell.rollout.trajectory import (
    TrajectoryReport,
    convert_sample_to_trajectory,
    report_from_response,
    save_trajectory,
)

__all__ = ["TrajectoryReport", "convert_sample_to_trajectory", "report_from_response", "save_trajectory"]
