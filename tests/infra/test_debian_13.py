"""`.make/debian13.sh`: where Debian 13 cannot be unpacked it says why and ends well; the tests on it report the rest."""

import os
import stat
import subprocess

import pytest
from support.documents import ROOT

pytestmark = pytest.mark.debian_13  # apt, as a Debian has it

MIRROR = "http://mirror.invalid/debian/"


@pytest.fixture
def run(tmp_path):
    """The script, among commands of the test; its output and the folder that it made."""
    (tmp_path / "bin").mkdir()
    folder = tmp_path / "debian13"

    def run(**commands: str):
        release = "$(. /etc/os-release && echo $VERSION_CODENAME)"
        commands = {
            "id": "echo 0",
            "apt-get": f"echo {MIRROR} {release} main; echo http://other.invalid {release} contrib",
            "debootstrap": 'echo "$@" >"$0.called"; mkdir -p "$4"',
            **commands,
        }
        for name, text in commands.items():
            command = tmp_path / "bin" / name
            command.write_text(f"#!/bin/sh\n{text}\n")
            command.chmod(command.stat().st_mode | stat.S_IXUSR)
        done = subprocess.run(
            [ROOT / ".make/debian13.sh", folder],
            env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout + done.stderr, (folder / ".root").exists()

    return run


def test_packages_come_from_the_mirror_of_apt(run, tmp_path):
    output, is_made = run()

    assert is_made
    assert "NOT SET UP" not in output
    *options, suite, _folder, mirror = (tmp_path / "bin/debootstrap.called").read_text().split()
    assert (suite, mirror) == ("trixie", MIRROR)
    assert "ruby-sidekiq" in " ".join(options)


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ({"id": "echo 1000", "sudo": "exit 1"}, "must run as root"),
        ({"apt-get": "true"}, "apt has no source"),
        ({"debootstrap": "echo E: no network; exit 1"}, "E: no network"),
    ],
)
def test_what_hinders_it_is_said_and_nothing_is_left(run, tmp_path, commands, reason):
    output, is_made = run(**commands)

    assert not is_made
    assert "NOT SET UP: Debian 13" in output
    assert "for the tests on Sidekiq 7.3" in output
    assert reason in output
