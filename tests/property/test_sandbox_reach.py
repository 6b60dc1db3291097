"""Which sandbox reaches the bridge, and how (E3; ruling 26; rollout_protocol 13.1 and 13.5)."""

from __future__ import annotations

import pytest

from osmosis.pure.sandbox_reach import chat_endpoint, chat_host, is_loopback, sandbox_url

URL = "http://127.0.0.1:8123/v1/rollouts/r"


@pytest.mark.parametrize(
    ("environment", "platform", "agent", "needed"),
    [
        ("singularity", "linux", "opencode", False),
        ("docker", "darwin", "opencode", False),
        ("docker", "linux", "opencode", True),
        ("podman", "linux", "opencode", True),
        ("podman", "darwin", "opencode", True),
        ("daytona", "darwin", "m:W", True),
        ("custom", "linux", "m:W", False),
        ("docker", "linux", "oracle", False),
        ("something-new", "linux", "m:W", True),
    ],
)
def test_who_needs_a_public_url(environment, platform, agent, needed):
    """As the public package has it; a type that nobody knows yet is taken to be far away."""
    endpoint = chat_endpoint(environment, platform, agent=agent, gateway="172.17.0.1")
    assert endpoint.requires_public_url is needed
    assert endpoint.gateway == ("172.17.0.1" if needed else None)


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        (URL, True),
        ("http://127.9.8.7/", True),
        ("http://localhost:1/", True),
        ("http://LOCALHOST./", True),
        ("http://api.localhost/", True),
        ("http://[::1]:80/", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("http://10.0.0.1/", False),
        ("https://example.com/127.0.0.1", False),
        ("http://localhost.example.com/", False),
        ("http://[broken/", False),
        ("", False),
    ],
)
def test_loopback_is_recognised(url, loopback):
    """In all its spellings, and nothing else."""
    assert is_loopback(url) is loopback


def test_docker_desktop_has_a_name_for_the_machine():
    """The port and the path stay."""
    assert sandbox_url(URL, "docker", "darwin", agent="a:B") == "http://host.docker.internal:8123/v1/rollouts/r"


@pytest.mark.parametrize("url", ["https://x.trycloudflare.com/v1", "http://172.17.0.1:8123/v1"])
def test_a_url_that_is_not_loopback_is_left_alone(url):
    """Somebody has opened a way already."""
    assert sandbox_url(url, "docker", "linux", agent="a:B") == url


@pytest.mark.parametrize(("environment", "flag"), [("docker", "--listener-host"), ("daytona", "--advertise-url")])
def test_a_dead_end_says_which_flags_help(environment, flag):
    """Before any sandbox is made."""
    with pytest.raises(ValueError, match=flag):
        sandbox_url(URL, environment, "linux", agent="a:B")
    assert sandbox_url(URL, environment, "linux", agent="oracle") == URL


def test_the_host_for_a_list_of_allowed_hosts():
    """Without the port."""
    assert (chat_host("https://a.example:444/v1"), chat_host("http://[x"), chat_host("")) == ("a.example", None, None)
