"""Plans of bubblewrap sandboxes: what they show of the machine, and what they limit (ruling 26)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.sandbox_plan import (
    CAPABILITIES,
    Limits,
    Mount,
    SandboxSpec,
    control_group_values,
    launch_plan,
    loopback_port,
    processors,
    resource_limits,
    whole_seconds,
)


def sources(command):
    """Everything of the machine that a command line shows to the sandbox."""
    return {
        command[index + 1]: word
        for index, word in enumerate(command)
        if word in ("--bind", "--ro-bind", "--ro-bind-try", "--dev-bind", "--bind-try")
    }


def test_without_a_root_file_system_only_usr_and_harmless_files_are_seen():
    """Writable is the overlay alone; no home, no keys, no device of the machine."""
    plan = launch_plan(SandboxSpec(bwrap="/usr/bin/bwrap", scratch="/s", links={"bin": "usr/bin"}))
    shown = sources(plan.command)
    assert {path for path, word in shown.items() if word == "--bind"} == {"/s/root", "/s/merged-usr"}
    read_only = {path for path, word in shown.items() if word.startswith("--ro-bind")}
    assert all(path.startswith("/etc/") for path in read_only)
    assert not read_only & {"/etc/shadow", "/etc/ssl", "/etc/ssl/private", "/etc/passwd"}
    assert [overlay.lower for overlay in plan.overlays] == ["/usr"]
    assert ("bin", "usr/bin") in plan.symlinks


def test_with_a_root_file_system_nothing_else_is_seen():
    """Not even this machine's users."""
    plan = launch_plan(SandboxSpec(bwrap="b", scratch="/s", rootfs="/images/x"))
    assert set(sources(plan.command)) == {"/s/merged-root"}
    assert ([overlay.lower for overlay in plan.overlays], plan.files, plan.symlinks) == (["/images/x"], (), ())


@given(st.booleans(), st.booleans(), st.none() | st.integers(1, 65535))
def test_every_sandbox_is_closed(rootfs, host_network, port):
    """Own name spaces, dies with its parent, no powers but the listed ones; a port only where the network is its own."""
    spec = SandboxSpec(bwrap="b", scratch="/s", rootfs="/r" if rootfs else None, host_network=host_network, relay_port=port)
    plan = launch_plan(spec)
    words = set(plan.command)
    assert {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--clearenv"} <= words
    dropped = plan.command.index("--cap-drop")
    assert plan.command[dropped + 1] == "ALL"
    given_back = [plan.command[index + 1] for index, word in enumerate(plan.command) if word == "--cap-add"]
    assert given_back == list(CAPABILITIES)
    assert not {"CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SYS_PTRACE", "CAP_NET_ADMIN"} & set(given_back)
    assert plan.own_network is not host_network
    assert plan.relay_port == (None if host_network else port)


def test_mounts_are_as_they_were_asked_for():
    """Read-only or not."""
    plan = launch_plan(SandboxSpec(bwrap="b", scratch="/s", mounts=(Mount("/a", "/x", True), Mount("/b", "/y", False))))
    line = " ".join(plan.command)
    assert "--ro-bind /a /x" in line
    assert "--bind /b /y" in line


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:81/v1", 81),
        ("http://localhost/v1", 80),
        ("https://[::1]/", 443),
        ("http://10.0.0.1:81/", None),
        ("", None),
        ("http://127.0.0.1:x/", None),
    ],
)
def test_only_a_loopback_url_has_a_port_to_relay(url, port):
    """A public URL needs a network."""
    assert loopback_port(url) == port


@given(st.sets(st.integers(0, 63), min_size=1), st.none() | st.integers(1, 80), st.integers(0, 10_000))
def test_processors_are_some_of_those_allowed(allowed, cpus, offset):
    """As many as asked for, or all."""
    chosen = processors(sorted(allowed), cpus, offset)
    assert set(chosen) <= allowed
    assert len(chosen) == (0 if cpus is None or cpus >= len(allowed) else cpus)


def test_limits_by_process_and_by_group():
    """Memory is limited by process only where no group does it; a group always limits the number of processes."""
    limits = Limits(cpus=1, memory_bytes=1 << 20, processes=7, file_bytes=9)
    numbers = {"RLIMIT_NPROC": 6, "RLIMIT_DATA": 2, "RLIMIT_FSIZE": 1, "RLIMIT_CORE": 4}
    assert dict(resource_limits(numbers, limits, enforced_memory=True)) == {4: 0, 6: 7, 1: 9}
    assert dict(resource_limits(numbers, limits, enforced_memory=False))[2] == 1 << 20
    for unified in (True, False):
        values = control_group_values(limits, unified=unified)
        assert values["pids"] == {"pids.max": "7"}
        assert str(1 << 20) in values["memory"].values()
        assert "memory" not in control_group_values(Limits(None, None, 7, 9), unified=unified)


@pytest.mark.parametrize(("seconds", "waited"), [(None, None), (0, None), (-1, None), (float("inf"), None), (3, 3.0)])
def test_timeouts_that_can_be_waited_for(seconds, waited):
    """Zero means none, as Harbor has it."""
    assert whole_seconds(seconds) == waited
