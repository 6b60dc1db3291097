"""Plans a bubblewrap sandbox: which mounts, which namespaces, which limits (issue 5, BubblewrapEnvironment; ruling 26).

The sandbox sees a root of its own, never the machine's: an overlay on a root file system that the user names, or, without one,
an overlay on this machine's `/usr` in an otherwise empty root. Writes go to the overlay and vanish with the sandbox. It has
process, user, network, IPC and host name spaces of its own; its network is a loopback on which at most one port answers, which
the server relays to the model bridge. Root in the sandbox has the capabilities that package managers need, and only there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

DEFAULT_STORAGE_MB: Final = 2048
DEFAULT_PROCESSES: Final = 1024
OPEN_FILES: Final = 65_536
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What is left of root's powers, by their numbers in linux/capability.h. No device nodes, no raw sockets, no mounts, no tracing.
CAPABILITIES: Final = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_SYS_CHROOT": 18,
    "CAP_SETFCAP": 31,
}

_PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
_HOST_ROOT_FILES = (
    ("etc/passwd", _PASSWD),
    ("etc/group", _GROUP),
    ("etc/hosts", _HOSTS),
    ("etc/hostname", "sandbox\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
)
_HOST_FILES = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_DIRECTORIES = {
    "etc": 0o755,
    "etc/ssl": 0o755,
    "root": 0o700,
    "home": 0o755,
    "opt": 0o755,
    "run": 0o755,
    "srv": 0o755,
    "tmp": 0o1777,
    "var/tmp": 0o1777,
}


class Mount(msgspec.Struct, frozen=True):
    """A directory or file of this machine that the sandbox sees at `target`."""

    source: str
    target: str
    read_only: bool


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. `rootfs` None: this machine's `/usr`. `links` are the machine's links beside it, such as `/bin`.

    `scratch` is a private directory for the overlay; `memory` says whether it is held in memory, which makes it vanish with the
    sandbox whatever happens. `relay_port`: the port of the sandbox's loopback that leads to the bridge.
    """

    bwrap: str
    scratch: str
    rootfs: str | None = None
    links: Mapping[str, str] = {}
    memory: bool = True
    storage_mb: int = DEFAULT_STORAGE_MB
    mounts: tuple[Mount, ...] = ()
    host_network: bool = False
    relay_port: int | None = None


class Overlay(msgspec.Struct, frozen=True):
    """An overlay on `lower`; `name` tells its directories below the scratch directory apart."""

    name: str
    lower: str


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher does before it becomes bubblewrap; it receives this as JSON. Paths in `directories`, `files` and
    `symlinks` lie below `<scratch>/root`."""

    scratch: str
    tmpfs_bytes: int | None
    overlays: tuple[Overlay, ...]
    directories: tuple[tuple[str, int], ...]
    files: tuple[tuple[str, str], ...]
    symlinks: tuple[tuple[str, str], ...]
    own_network: bool
    relay_port: int | None
    command: tuple[str, ...]


class Limits(msgspec.Struct, frozen=True):
    """Limits of a sandbox. `cpus` and `memory_bytes` None: none. `file_bytes` bounds each file."""

    cpus: int | None
    memory_bytes: int | None
    processes: int
    file_bytes: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One command to run in a sandbox, for the program that enters it; it receives this as JSON.

    `pid` is a process of the sandbox; `user` a name or number of the sandbox; `cgroups` are files to write a process id to;
    `cpus` the numbers of the processors it may use, empty for all; `rlimits` are (number of the resource, limit).
    """

    pid: int
    argv: tuple[str, ...]
    cwd: str
    user: str
    environment: Mapping[str, str]
    capabilities: tuple[int, ...]
    cgroups: tuple[str, ...]
    cpus: tuple[int, ...]
    rlimits: tuple[tuple[int, int], ...]
    many_users: bool


def launch_plan(spec: SandboxSpec) -> LaunchPlan:
    """The launcher's part and bubblewrap's command line."""
    root = f"{spec.scratch}/root"
    base = f"{spec.scratch}/merged-root" if spec.rootfs else root
    command = [spec.bwrap, "--bind", base, "/"]
    if spec.rootfs is None:
        command += ["--bind", f"{spec.scratch}/merged-usr", "/usr"]
        for path in _HOST_FILES:
            command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for mount in spec.mounts:
        command += ["--ro-bind" if mount.read_only else "--bind", mount.source, mount.target]
    command += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--setenv", "PATH", PATH, "--chdir", "/"]
    command += ["--cap-drop", "ALL", *(part for name in CAPABILITIES for part in ("--cap-add", name))]
    command += ["--info-fd", "3", "--", "/bin/sh", "-c", "echo ready; exec sleep infinity"]
    return LaunchPlan(
        scratch=spec.scratch,
        tmpfs_bytes=spec.storage_mb << 20 if spec.memory else None,
        overlays=(Overlay("root", spec.rootfs) if spec.rootfs else Overlay("usr", "/usr"),),
        directories=() if spec.rootfs else tuple({**_DIRECTORIES, "usr": 0o755}.items()),
        files=() if spec.rootfs else _HOST_ROOT_FILES,
        symlinks=() if spec.rootfs else tuple(spec.links.items()),
        own_network=not spec.host_network,
        relay_port=None if spec.host_network else spec.relay_port,
        command=tuple(command),
    )


def loopback_port(url: str) -> int | None:
    """The port of a URL on this machine's loopback, as the bridge's is; None for any other address or none at all."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return None
    return port if port is not None else {"http": 80, "https": 443}.get(parts.scheme)


def resource_limits(numbers: Mapping[str, int], limits: Limits, *, enforced_memory: bool) -> tuple[tuple[int, int], ...]:
    """The limits of a process. `numbers` are those of this system's resources by name; memory is limited here only where no
    control group does it."""
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_FSIZE": limits.file_bytes,
    }
    if limits.memory_bytes is not None and not enforced_memory:
        wanted["RLIMIT_DATA"] = limits.memory_bytes
    return tuple((numbers[name], value) for name, value in wanted.items() if name in numbers)


def processors(allowed: Sequence[int], cpus: int | None, offset: int) -> tuple[int, ...]:
    """Which of the processors of this machine a sandbox of `cpus` may use: some in a row from `offset`, so that neighbours
    spread; empty for all."""
    if cpus is None or cpus >= len(allowed):
        return ()
    ordered = sorted(allowed)
    return tuple(sorted(ordered[(offset + index) % len(ordered)] for index in range(max(1, cpus))))


def control_group_values(limits: Limits, *, unified: bool) -> dict[str, dict[str, str]]:
    """What to write into which file, by controller. `unified` is version 2 of control groups."""
    if unified:
        values = {"pids": {"pids.max": str(limits.processes)}}
        if limits.memory_bytes is not None:
            values["memory"] = {"memory.max": str(limits.memory_bytes), "memory.swap.max": "0"}
        return values
    values = {"pids": {"pids.max": str(limits.processes)}}
    if limits.memory_bytes is not None:
        values["memory"] = {"memory.limit_in_bytes": str(limits.memory_bytes)}
    return values


def whole_seconds(timeout_sec: float | None) -> float | None:
    """A timeout that can be waited for; None for none. Zero and less mean none, as Harbor has it."""
    if timeout_sec is None or timeout_sec <= 0 or not math.isfinite(timeout_sec):
        return None
    return float(timeout_sec)
