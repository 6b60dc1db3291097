"""The model bridge: the local OpenAI-compatible endpoint through which rollouts reach the model."""

from osmosis.shell.bridge.cassette_file import load_cassette
from osmosis.shell.bridge.preflight import preflight
from osmosis.shell.bridge.recorder import Recorder
from osmosis.shell.bridge.server import Bridge

__all__ = ["Bridge", "Recorder", "load_cassette", "preflight"]
