"""Run a command with a container engine of its own, from Debian's packages and without any image registry.

    sudo python scripts/sandbox_engine.py docker COMMAND...
    sudo python scripts/sandbox_engine.py podman COMMAND...
    sudo python scripts/sandbox_engine.py install        (the packages alone, bubblewrap's too)

Everything lies in a scratch directory that is removed at the end: the engine's data, its socket, the configuration that its
clients read. A user's own engine and configuration are left alone: the command finds this engine by DOCKER_HOST,
DOCKER_CONFIG, CONTAINERS_CONF and CONTAINERS_STORAGE_CONF in its environment. Images: `docker.io/library/osmosis-base:latest`,
Debian with Python, made by mmdebstrap and kept below `.venv-harbor` for the next time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "docker.io/library/osmosis-base:latest"
CACHE = ROOT / ".venv-harbor" / "images"

PACKAGES = {
    "bubblewrap": ("bubblewrap",),
    "docker": ("docker.io", "mmdebstrap"),
    "podman": ("podman", "runc", "netavark", "aardvark-dns", "iptables", "catatonit", "mmdebstrap"),
}
PROGRAMS = {
    "bubblewrap": ("bwrap",),
    "docker": ("dockerd", "docker", "mmdebstrap"),
    "podman": ("podman", "runc", "iptables", "catatonit", "mmdebstrap"),
}

_SUITE, _NEWER = "bookworm", "trixie"
_IMAGE_PACKAGES = "ca-certificates,python3"
_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_SUBNET = "172.31.247.1/24"

# crun fails where control groups are mixed, and raising limits needs a capability that virtual machines often lack.
_CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=1024:20000", "nproc=4096:4096"]

[engine]
runtime = "runc"
"""


class EngineError(RuntimeError):
    """The engine cannot be had on this machine; the message says what is missing."""


def install(*kinds: str) -> None:
    """Install what is missing, with apt. Raises EngineError where that cannot be done."""
    missing = [kind for kind in kinds if not all(shutil.which(program) for program in PROGRAMS[kind])]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        names = " ".join(name for kind in missing for name in PACKAGES[kind])
        raise EngineError(f"these Debian packages are missing, and installing them needs root and apt: {names}")
    wanted = dict.fromkeys(name for kind in missing for name in PACKAGES[kind])
    # No service is to start: this machine may have an engine of its own, and the tests bring theirs.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    _run("apt-get", "update", "-qq", environment=environment)
    _run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted, environment=environment)


def base_image() -> Path:
    """The archive of the base image's root file system, made if it is not there yet."""
    install("docker" if shutil.which("dockerd") else "podman")
    key = hashlib.sha256(f"{_SUITE} {_IMAGE_PACKAGES} 1".encode()).hexdigest()[:16]
    archive = CACHE / f"{_SUITE}-{key}.tar"
    if archive.exists():
        return archive
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}.tmp.tar")
    thinner = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info")]
    fast = ["--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Languages "none"']
    _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_IMAGE_PACKAGES}", *thinner, *fast, _SUITE, str(unfinished))
    unfinished.replace(archive)
    return archive


@contextmanager
def engine(kind: str) -> Iterator[dict[str, str]]:
    """A running engine with the base image in it; yields the variables by which its clients find it."""
    running = {"docker": _docker, "podman": _podman}[kind]
    with (
        tempfile.TemporaryDirectory(prefix="osmosis-engine-", ignore_cleanup_errors=True) as scratch,
        running(Path(scratch)) as variables,
    ):
        yield variables


@contextmanager
def _docker(scratch: Path) -> Iterator[dict[str, str]]:
    install("docker")
    configuration = scratch / "config"
    _compose_plugin(scratch, configuration / "cli-plugins")
    host = f"unix://{scratch}/docker.sock"
    variables = {"DOCKER_HOST": host, "DOCKER_CONFIG": str(configuration), "BUILDKIT_PROGRESS": "plain"}
    # The daemon ends with this program, even if that is killed.
    command = [
        "setpriv",
        "--pdeathsig",
        "TERM",
        "dockerd",
        "--data-root",
        str(scratch / "data"),
        "--exec-root",
        str(scratch / "exec"),
        "--host",
        host,
    ]
    command += ["--pidfile", str(scratch / "dockerd.pid"), "--iptables=false", "--ip6tables=false", "--bip", _SUBNET]
    log = scratch / "dockerd.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
    environment = {**os.environ, **variables}
    try:
        _wait_for_docker(daemon, environment, log)
        _run("docker", "import", str(base_image()), IMAGE, environment=environment)
        yield variables
    finally:
        _stop(daemon)


def _wait_for_docker(daemon: subprocess.Popen[bytes], environment: dict[str, str], log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while subprocess.run(["docker", "info"], env=environment, capture_output=True, check=False).returncode != 0:
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise EngineError(f"dockerd does not come up; it said:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _compose_plugin(scratch: Path, target: Path) -> None:
    """Compose as a client plugin: the one that is there, else the static program in a newer Debian's package, unpacked only."""
    target.mkdir(parents=True)
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return
    cached = CACHE / "docker-compose"
    if not cached.exists():
        apt = scratch / "apt"
        for name in ("state/lists/partial", "cache/archives/partial", "parts", "packages"):
            (apt / name).mkdir(parents=True)
        sources = Path("/etc/apt/sources.list.d/debian.sources").read_text()
        (apt / "parts" / "newer.sources").write_text(sources.replace(_SUITE, _NEWER))
        options = [
            f"Dir::Etc::sourceparts={apt}/parts",
            "Dir::Etc::sourcelist=/dev/null",
            f"Dir::State={apt}/state",
            "Dir::State::status=/var/lib/dpkg/status",
            f"Dir::Cache={apt}/cache",
            "APT::Sandbox::User=root",
        ]
        flags = [part for option in options for part in ("-o", option)]
        _run("apt-get", *flags, "update", "-qq")
        _run("apt-get", *flags, "download", "-qq", "docker-compose", directory=apt / "packages")
        package = next((apt / "packages").glob("docker-compose_*.deb"))
        _run("dpkg", "-x", str(package), str(apt / "unpacked"))
        CACHE.mkdir(parents=True, exist_ok=True)
        shutil.copy(apt / "unpacked/usr/libexec/docker/cli-plugins/docker-compose", cached)
    shutil.copy(cached, target / "docker-compose")


@contextmanager
def _podman(scratch: Path) -> Iterator[dict[str, str]]:
    install("podman")
    (scratch / "containers.conf").write_text(_CONTAINERS_CONF)
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{scratch}/graph"\nrunroot = "{scratch}/run"\n'
    (scratch / "storage.conf").write_text(storage)
    variables = {
        "CONTAINERS_CONF": str(scratch / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(scratch / "storage.conf"),
        "PATH": f"{ROOT / '.venv-harbor' / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    environment = {**os.environ, **variables}
    try:
        _run("podman", "import", "--quiet", str(base_image()), IMAGE, environment=environment)
        yield variables
    finally:
        subprocess.run(["podman", "rm", "--all", "--force", "--time", "0"], env=environment, capture_output=True, check=False)
        subprocess.run(["podman", "network", "prune", "--force"], env=environment, capture_output=True, check=False)
        subprocess.run(["podman", "rmi", "--all", "--force"], env=environment, capture_output=True, check=False)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    if daemon.poll() is None:
        daemon.terminate()
        try:
            daemon.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


def _run(*command: str, environment: dict[str, str] | None = None, directory: Path | None = None) -> None:
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip()[-2000:]
        raise EngineError(f"{' '.join(command[:3])} failed with exit code {done.returncode}:\n{words}")


def main() -> int:
    """Command line: see the module docstring."""
    kind, *command = sys.argv[1:] or [""]
    try:
        if kind == "install":
            install("bubblewrap", "docker", "podman")
            return 0
        if kind not in ("docker", "podman") or not command:
            sys.exit("usage: sandbox_engine.py docker|podman COMMAND...  or  sandbox_engine.py install")
        with engine(kind) as variables:
            return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode
    except EngineError as error:
        sys.exit(f"sandbox_engine: {error}")


if __name__ == "__main__":
    sys.exit(main())
