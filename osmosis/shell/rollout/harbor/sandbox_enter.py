"""Runs one command in a sandbox that is already there, and ends with its exit code.

Started by its path with the standard library alone; the entry is in a file whose descriptor is the argument: it may hold a
key. It joins the sandbox's namespaces and forks, so that the child is in the sandbox's process namespace; the child joins its
control groups and gives up every power that the sandbox's root does not have before it becomes the command. SIGTERM kills the
command and its whole process group.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_NAMESPACES = (("user", 0x1000_0000), ("cgroup", 0x0200_0000), ("ipc", 0x0800_0000), ("uts", 0x0400_0000))
_LAST_NAMESPACES = (("net", 0x4000_0000), ("pid", 0x2000_0000), ("mnt", 0x0002_0000))
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_LAST_CAPABILITY = 63
_CANNOT_START = 126

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Do it, or end with 126 and one line that says what the system refused."""
    with open(int(sys.argv[1])) as file:
        entry = json.load(file)
    try:
        if entry["cpus"]:
            os.sched_setaffinity(0, entry["cpus"])
        # A control group is joined through the right to write that this process has now, before it changes who it is.
        groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in entry["cgroups"]]
        _enter(entry["pid"])
        child = os.fork()
        if child == 0:
            _become(entry, groups)
        os._exit(_wait(child))
    except OSError as error:
        _refuse(_words(error))


def _words(error: OSError) -> str:
    return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)


def _refuse(reason: str) -> None:
    os.write(2, f"the command cannot be run in the sandbox: {reason}\n".encode())
    os._exit(_CANNOT_START)


def _enter(pid: int) -> None:
    """All namespaces of `pid`. They are opened first: after the first step another process's may be out of sight."""
    opened = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), kind, name) for name, kind in (*_NAMESPACES, *_LAST_NAMESPACES)]
    for descriptor, kind, name in opened:
        elsewhere = os.readlink(f"/proc/self/fd/{descriptor}") != os.readlink(f"/proc/self/ns/{name}")
        if elsewhere and _libc.setns(descriptor, kind) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"{name} namespace")
        os.close(descriptor)


def _wait(child: int) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(child, signal.SIGKILL))
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        code = os.waitstatus_to_exitcode(status)
        return 128 - code if code < 0 else code


def _become(entry: dict[str, Any], groups: list[int]) -> None:
    try:
        for group in groups:
            os.write(group, b"0")
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        uid, gid, home = _identity(entry)
        for number, value in entry["rlimits"]:
            hard = resource.getrlimit(number)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (bound, bound))
        kept = set(entry["capabilities"])
        for capability in range(_LAST_CAPABILITY + 1):
            if capability not in kept:
                _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if entry["many_users"]:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        os.chdir(entry["cwd"] or "/")
        os.umask(0o022)
        environment = {"HOME": home, **entry["environment"]}
        os.execvpe(entry["argv"][0], entry["argv"], environment)  # noqa: S606 - this is what it is for
    except OSError as error:
        _refuse(_words(error))
    except LookupError as error:
        _refuse(str(error.args[0]))


def _identity(entry: dict[str, Any]) -> tuple[int, int, str]:
    """User, group and home directory, from the sandbox's own `/etc/passwd`."""
    wanted = entry["user"]
    found = (0, 0, "/root") if wanted in ("root", "0") else None
    try:
        with open("/etc/passwd", errors="surrogateescape") as file:
            for line in file:
                fields = line.rstrip("\n").split(":")
                if len(fields) >= 6 and wanted in (fields[0], fields[2]) and fields[2].isdecimal() and fields[3].isdecimal():
                    found = (int(fields[2]), int(fields[3]), fields[5] or "/")
                    break
    except OSError:
        pass
    if found is None and wanted.isdecimal():
        found = (int(wanted), int(wanted), "/")
    if found is None:
        raise LookupError(f"it has no user {wanted!r}")
    if found[0] != 0 and not entry["many_users"]:
        raise LookupError(f"it has no user but root, so not {wanted!r}; several need a server that runs as root")
    return found


if __name__ == "__main__":
    main()
