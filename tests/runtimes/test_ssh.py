"""Engines behind ssh: why one can't be reached, in the words of a stand-in for `ssh` that is first in PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine, ping
from schedulearn.scheduler.specs.host import HostSpec

WARNING = "@@@@@@@@@@@@\\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's file: what is written to it is its script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = tmp_path / "ssh"
    file.touch(0o755)
    return file


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ada@gpu2: Permission denied (publickey).", 255),
        ("Host key verification failed.", 255),
        (f"{WARNING}\\nHost key verification failed.", 255),
        ("ssh: Could not resolve hostname gpu2: Name or service not known", 255),
        ("ssh: connect to host gpu2 port 22: Connection refused", 255),
        ("bash: line 1: docker: command not found", 127),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", 1),
    ],
)
@pytest.mark.parametrize("slowly", ["", "sleep 0.3", "read -r line"])
def test_what_ssh_said_last_is_told_with_its_exit_code(ssh: Path, said: str, code: int, slowly: str) -> None:
    """It may end at once, late, or after it has read a part of the request."""
    ssh.write_text(f"#!/bin/sh\n{slowly}\nprintf '{said}\\n\\n' >&2\nexit {code}\n")
    line = said.split("\\n")[-1]
    with pytest.raises(RuntimeFault) as caught:
        _ = Engine("ssh://ada@gpu2").api
    assert str(caught.value) == (
        f"the Docker Engine at ssh://ada@gpu2 does not answer: ssh ended with exit code {code}: {line}"
    )
    assert ping("ssh://ada@gpu2") == f"ssh ended with exit code {code}: {line}"


def test_an_ssh_that_says_nothing_or_speaks_before_the_engine_is_told_too(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\nexit 3\n")
    assert ping("ssh://gpu2") == "ssh ended with exit code 3: no output"
    ssh.write_text("#!/bin/sh\necho Welcome to gpu2\nprintf 'no \\033[31mdocker\\n' >&2\nexit 127\n")
    assert ping("ssh://gpu2") == "ssh ended with exit code 127: no ?[31mdocker"


def test_users_ports_and_addresses_reach_ssh_as_they_are_meant(ssh: Path) -> None:
    ssh.write_text('#!/bin/sh\necho "$*" >&2\nexit 9\n')
    assert "-l ada -p 2222 -- ::1 docker system dial-stdio" in str(ping("ssh://ada@[::1]:2222"))
    assert "-l ada -- fe80::1%eth0 docker" in str(ping("ssh://ada@[fe80::1%eth0]"))
    assert " -p 22 -- gpu2 docker" in str(ping("ssh://gpu2:22"))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("ssh://u@[::1]", "ip6-1"),
        ("ssh://u@[fe80::1]:22", "ip6-fe80-1"),
        ("tcp://[2001:db8::7]:2376", "ip6-2001-db8-7"),
    ],
)
def test_a_host_may_be_added_by_its_ipv6_address(address: str, name: str) -> None:
    assert HostSpec(address=address).name == name
