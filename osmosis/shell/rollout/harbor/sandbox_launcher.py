"""Becomes a sandbox: enters new namespaces, mounts the overlay, opens the one port, and turns into bubblewrap.

Started by its path with the standard library alone, as a child of the server. The arguments are the descriptors of a file with
the plan and of a socket to the server. It says `U` once it is in a user namespace of its own, waits for `M` when the server
has written the maps, and sends the listening socket of the sandbox's loopback with `L`; then bubblewrap writes its news there.
If the server goes away in between, the socket ends, and so does this program.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from typing import Any

CONTROL = 3

_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWNET = 0x4000_0000
_MS_REC_PRIVATE = 0x4000 | 0x4_0000
_MS_NOSUID_NODEV = 2 | 4
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_BACKLOG = 128

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Do it, or end with one line that says what the system refused."""
    with open(int(sys.argv[1])) as file:
        plan = json.load(file)
    os.dup2(int(sys.argv[2]), CONTROL, inheritable=False)
    control = socket.socket(fileno=CONTROL)
    os.umask(0o022)
    try:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNS | (_CLONE_NEWNET if plan["own_network"] else 0))
        control.send(b"U")
        if control.recv(1) != b"M":
            sys.exit(1)
        _mounts(plan)
        _fill(plan)
        listening = _listen(plan)
        rights = [] if listening is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listening.fileno()]))]
        control.sendmsg([b"L"], rights)
        if listening is not None:
            listening.close()
        os.set_inheritable(CONTROL, True)
        os.execv(plan["command"][0], plan["command"])  # noqa: S606 - this is what it is for
    except OSError as error:
        what = f" ({error.filename})" if error.filename else ""
        sys.exit(f"the sandbox cannot be made: {error.strerror}{what}")


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "new namespaces")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"{kind or 'mount'} on {target}")


def _mounts(plan: dict[str, Any]) -> None:
    scratch = plan["scratch"]
    _mount("none", "/", None, _MS_REC_PRIVATE, None)
    if plan["tmpfs_bytes"] is not None:
        _mount("tmpfs", scratch, "tmpfs", _MS_NOSUID_NODEV, f"mode=0700,size={plan['tmpfs_bytes']}")
    for overlay in plan["overlays"]:
        upper, work, merged = (f"{scratch}/{part}-{overlay['name']}" for part in ("upper", "work", "merged"))
        for directory in (upper, work, merged):
            os.mkdir(directory, 0o755)
        options = f"userxattr,lowerdir={_escaped(overlay['lower'])},upperdir={_escaped(upper)},workdir={_escaped(work)}"
        _mount("overlay", merged, "overlay", _MS_NOSUID_NODEV, options)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _fill(plan: dict[str, Any]) -> None:
    root = f"{plan['scratch']}/root"
    os.mkdir(root, 0o755)
    for path, mode in plan["directories"]:
        os.makedirs(f"{root}/{path}", exist_ok=True)
        os.chmod(f"{root}/{path}", mode)
    for path, text in plan["files"]:
        with open(f"{root}/{path}", "w") as file:
            file.write(text)
        os.chmod(f"{root}/{path}", 0o644)
    for path, target in plan["symlinks"]:
        os.symlink(target, f"{root}/{path}")


def _listen(plan: dict[str, Any]) -> socket.socket | None:
    """The sandbox's only door, if it gets one. The socket stays in this network namespace, whoever accepts from it."""
    if not plan["own_network"]:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        flags = struct.unpack("16sh", fcntl.ioctl(device, _SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(device, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP))
    if plan["relay_port"] is None:
        return None
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", plan["relay_port"]))
    listening.listen(_BACKLOG)
    return listening


if __name__ == "__main__":
    main()
