"""What of Python a sandbox offers, and what our SDK needs there (ruling 26; contract: rollout_protocol section 14).

Nothing is fetched inside a sandbox. The server asks the sandbox's Python what it is, has uv lay out a directory of packages for
just that Python, and ships it. The runner needs far less than the server: no web framework, no harness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from osmosis.pure.bundle import SDK_NAME, requirement_extras, requirement_name

HOME: Final = "/opt/osmosis"
"""Where everything of ours lies in a sandbox."""

PYTHONS: Final = (f"{HOME}/venv/bin/python", "python3", "python3.13", "python3.12", "python3.14", "python3.11", "python")
OLDEST: Final = (3, 11)

PROBE: Final = (
    "import asyncio, json, platform, sys, sysconfig; "
    "print(json.dumps({'python': sys.executable, 'implementation': sys.implementation.name, "
    "'version': list(sys.version_info[:2]), 'machine': platform.machine(), 'libc': list(platform.libc_ver()), "
    "'musl': 'musl' in (sysconfig.get_config_var('HOST_GNU_TYPE') or '')}))"
)
"""A program that tells about the Python that runs it, on one line of JSON."""

_SDK_NEEDS: Final = frozenset({"httpx", "msgspec", "pydantic", "xxhash"})
_SANDBOX_EXTRAS: Final = frozenset({"openai-agents", "strands", "rubric"})
_MANYLINUX: Final = (((2, 28), "manylinux_2_28"), ((2, 17), "manylinux2014"))
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class SandboxPython(msgspec.Struct, frozen=True):
    """A Python in a sandbox: where it is, its version, and the platform that its packages must be built for."""

    executable: str
    version: tuple[int, int]
    platform: str

    @property
    def tag(self) -> str:
        """A name for a directory of packages for such a Python: `3.11-x86_64-manylinux_2_28`."""
        return f"{self.version[0]}.{self.version[1]}-{self.platform}"


class _Probed(msgspec.Struct):
    python: str
    implementation: str
    version: tuple[int, int]
    machine: str
    libc: list[str]
    musl: bool


def read_probe(output: str) -> SandboxPython:
    """Read what `PROBE` printed. Raises ValueError that says what does not fit."""
    line = output.strip().rpartition("\n")[2]
    try:
        probed = msgspec.json.decode(line.encode("utf-8", "replace"), type=_Probed)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its answer is not understood: {error}") from None
    version = ".".join(map(str, probed.version))
    if probed.implementation != "cpython":
        raise ValueError(f"it is {probed.implementation} {version}; CPython is needed")
    if probed.version < OLDEST:
        raise ValueError(f"it is Python {version}; {OLDEST[0]}.{OLDEST[1]} or later is needed")
    machine = _MACHINES.get(probed.machine.lower())
    if machine is None:
        raise ValueError(f"its machine is {probed.machine!r}; known are {', '.join(sorted(set(_MACHINES.values())))}")
    return SandboxPython(probed.python, probed.version, f"{machine}-{_libc(probed)}")


def _libc(probed: _Probed) -> str:
    name, text = [*probed.libc, "", ""][:2]
    if probed.musl or name != "glibc":
        return "unknown-linux-musl"
    numbers = [int(part) for part in text.split(".") if part.isdecimal()]
    version = (numbers[0], numbers[1]) if len(numbers) >= 2 else (0, 0)
    for oldest, tag in _MANYLINUX:
        if version >= oldest:
            return tag
    raise ValueError(f"its glibc is {text or 'unknown'}; 2.17 or later is needed")


def site_requirements(bundle: Iterable[str], sdk: Iterable[str]) -> tuple[str, ...]:
    """What to install beside the wheels of bundle and SDK: what the bundle requires, and of the SDK what its runner needs.

    `sdk` are the SDK's own requirements with the markers of their extras. An extra of the SDK that the bundle asks for counts
    if it has a meaning in a sandbox.
    """
    own = [text for text in bundle if requirement_name(text) != SDK_NAME]
    extras = {extra for text in bundle if requirement_name(text) == SDK_NAME for extra in requirement_extras(text)}
    wanted = {}
    for text in sdk:
        bare, _, marker = text.partition(";")
        name = requirement_name(bare)
        asked = any(f"{quote}{extra}{quote}" in marker for extra in extras & _SANDBOX_EXTRAS for quote in "'\"")
        if name != SDK_NAME and (name in _SDK_NEEDS or asked):
            wanted[name] = bare.strip()
    return (*own, *(wanted[name] for name in sorted(wanted)))


def constraints(installed: Mapping[str, str]) -> str:
    """The text of a constraints file: in the sandbox the same versions as in the rollout's environment."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(installed.items()) if name != SDK_NAME)
