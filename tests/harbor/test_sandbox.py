"""A bubblewrap sandbox by itself: what it shows, limits, and leaves (issue 5, BubblewrapEnvironment; ruling 26)."""

from __future__ import annotations

import os
import socket

import pytest

from osmosis.pure.sandbox_plan import Limits, Mount, SandboxSpec
from osmosis.shell.rollout.harbor.bubblewrap import _machine_links, find_bwrap
from osmosis.shell.rollout.harbor.sandbox import CommandTimeoutError, Sandbox, SandboxError
from tests.harbor.harbor_workspace import descendants, left_alive
from tests.integration.stub_provider import talking

LIMITS = Limits(cpus=1, memory_bytes=512 << 20, processes=64, file_bytes=1 << 20)


@pytest.fixture
def spec(tmp_path, bubblewrap):
    """A sandbox on this machine's `/usr`."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {"bwrap": find_bwrap(None), "scratch": str(scratch), "links": _machine_links()}


async def shell(sandbox, command, **options):
    """Run a shell command."""
    return await sandbox.run(["/bin/sh", "-c", command], **options)


def on_this_machine(path):
    """Whether this machine has a file of that name."""
    return os.path.exists(path)


async def test_what_a_command_sees(spec):
    """A clean environment, no powers beyond the listed ones, no processes and no directories of the machine."""
    sandbox = await Sandbox.start(SandboxSpec(**spec), LIMITS)
    try:
        seen = await shell(sandbox, "env; grep -E 'CapEff|NoNewPrivs' /proc/self/status", environment={"GIVEN": "1"})
        assert "GIVEN=1" in seen.stdout
        assert "CapEff:\t00000000800405fb" in seen.stdout
        assert "NoNewPrivs:\t1" in seen.stdout
        assert (await shell(sandbox, "ls / | tr '\\n' ' '")).stdout.split() == sorted(
            {"bin", "dev", "etc", "home", "opt", "proc", "root", "run", "srv", "tmp", "usr", "var"} | set(spec["links"])
        )
        assert (await shell(sandbox, "kill -0 $(($$ + 100000)); ls /proc | grep -c '^[0-9]'")).stdout.strip() in {
            "3",
            "4",
            "5",
            "6",
        }
        assert (await shell(sandbox, "echo x > /usr/new && cat /usr/new")).stdout == "x\n"
        assert not on_this_machine("/usr/new")
        assert (await shell(sandbox, "mknod /tmp/d c 1 3")).code != 0
        assert (await shell(sandbox, "nproc")).stdout.strip() == "1"
    finally:
        await sandbox.stop()


async def test_limits_hold(spec):
    """Of memory, of processes, of the size of a file, of time; the sandbox goes on working afterwards."""
    sandbox = await Sandbox.start(SandboxSpec(**spec), LIMITS)
    try:
        hog = await sandbox.run(["/usr/bin/python3", "-c", "b = bytearray(1 << 30); b[::4096] = b'x' * len(b[::4096])"])
        assert hog.code != 0
        with pytest.raises(CommandTimeoutError):
            await shell(sandbox, "sleep 500 | cat", timeout_sec=0.5)
        assert "sleep 500" not in (await shell(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout
        forks = "n=0; while [ $n -lt 200 ]; do sleep 5 & n=$((n+1)); done; wait"
        assert "fork" in (await shell(sandbox, forks, timeout_sec=60)).stderr.lower()
        assert (await shell(sandbox, "head -c 2000000 /dev/zero > /tmp/big")).code != 0
        assert (await shell(sandbox, "echo fine")).stdout == "fine\n"
    finally:
        await sandbox.stop()


async def test_users_of_the_sandbox(spec):
    """A server that runs as root has them all, unknown ones are refused in words."""
    sandbox = await Sandbox.start(SandboxSpec(**spec), LIMITS)
    try:
        nobody = await shell(sandbox, "id -un; touch /etc/x", user="nobody")
        assert nobody.stdout == "nobody\n" if os.geteuid() == 0 else nobody.code == 126
        missing = await shell(sandbox, "true", user="somebody")
        assert (missing.code, "no user 'somebody'" in missing.stderr) == (126, True)
        gone = await shell(sandbox, "true", cwd="/nowhere")
        assert (gone.code, "/nowhere" in gone.stderr) == (126, True)
    finally:
        await sandbox.stop()


async def test_one_port_and_no_other(spec):
    """The relayed port answers on the sandbox's own loopback; other ports of the machine do not."""

    async def answer(reader, writer):
        writer.write(b"you said " + await reader.readline())

    async with talking(answer) as port:
        sandbox = await Sandbox.start(SandboxSpec(**spec, relay_port=port), LIMITS, ("127.0.0.1", port))
        talk = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 90); s.sendall(b'hi\\n'); "
        talk += "print(s.makefile().read(), end='')"
        with socket.create_server(("127.0.0.1", 0)) as other:
            try:
                said = await sandbox.run(["/usr/bin/python3", "-c", talk, str(port)])
                assert said.stdout == "you said hi\n"
                refused = await sandbox.run(["/usr/bin/python3", "-c", talk, str(other.getsockname()[1])])
                assert "ConnectionRefusedError" in refused.stderr
            finally:
                await sandbox.stop()


async def test_files_go_in_and_honest_ones_come_out(spec, tmp_path):
    """Through links of the sandbox's own, but never out of its root; executable files stay executable."""
    sandbox = await Sandbox.start(SandboxSpec(**spec), LIMITS)
    try:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tmp_path / "in" / "run.sh").chmod(0o755)
        await shell(sandbox, "mkdir /real && ln -s /real /there && ln -s / /real/up && ln -s ../../../../../../etc /outward")
        sandbox.files.put_directory(tmp_path / "in", "/there/deep")
        assert (await shell(sandbox, "/real/deep/run.sh")).stdout == "ran\n"
        await shell(sandbox, "echo a > /real/a; ln -s /etc/passwd /real/l; mkfifo /real/p; truncate -s 1M /real/z")
        report = sandbox.files.get_directory("/there", tmp_path / "out")
        assert sorted(report.copied) == ["a", "deep/run.sh", "z"]
        assert sorted(skipped.path for skipped in report.skipped) == ["l", "p", "up"]
        with pytest.raises(OSError, match="not a regular file"):
            sandbox.files.get_file("/real/l", tmp_path / "l")
        sandbox.files.put_file(tmp_path / "in" / "run.sh", "/outward/placed")
        assert not on_this_machine("/etc/placed")
        assert (await shell(sandbox, "test -f /etc/placed")).code == 0
    finally:
        await sandbox.stop()


async def test_nothing_is_left(spec, tmp_path):
    """No process, however it tried to get away, and nothing on the disk where the overlay lies in memory."""
    before = descendants(os.getpid())
    sandbox = await Sandbox.start(SandboxSpec(**spec, mounts=(Mount(str(tmp_path), "/mnt", True),)), LIMITS)
    await shell(
        sandbox, "setsid sh -c 'trap \"\" TERM HUP INT; while true; do sleep 1; done' >/dev/null 2>&1 & echo x > /tmp/x"
    )
    assert (await shell(sandbox, "touch /mnt/x")).code != 0
    below = descendants(os.getpid()) - before
    assert below
    await sandbox.stop()
    await sandbox.stop()
    assert not left_alive(below)
    assert os.listdir(spec["scratch"]) == []


async def test_a_sandbox_that_cannot_be_made_says_why(spec, tmp_path):
    """In the words of the system, and nothing is left of it."""
    before = descendants(os.getpid())
    with pytest.raises(SandboxError, match=r"No such file|overlay"):
        await Sandbox.start(SandboxSpec(**(spec | {"rootfs": str(tmp_path / "missing")})), LIMITS)
    with pytest.raises(SandboxError, match="nowhere"):
        await Sandbox.start(SandboxSpec(**spec, mounts=(Mount("/nowhere", "/mnt", True),)), LIMITS)
    assert descendants(os.getpid()) <= before
