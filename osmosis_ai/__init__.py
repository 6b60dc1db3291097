"""Documented import names for people who write rollouts and rewards; re-exports only."""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415 - slow, and most programs never ask

    return version("osmosis-ai")
