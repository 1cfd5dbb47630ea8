"""The unit for EC2: what systemd says of it, and that it leaves the worker the time that it needs."""

import subprocess
from pathlib import Path

import pytest

from kiqbridge.config.config import SETTINGS
from kiqbridge.engine.host.status import STALE_AFTER_S

UNIT = Path(__file__).parents[2] / "infra" / "kiqbridge-worker.service"
COMMAND = "/opt/kiqbridge/.venv/bin/kiqbridge"
TEXT = UNIT.read_text(encoding="utf-8")


def values(key):
    return [
        line.removeprefix(f"{key}=") for line in TEXT.splitlines() if line.startswith(f"{key}=")
    ]


@pytest.fixture
def installed(tmp_path):
    """The unit with a command that exists, as verify wants it."""
    command = tmp_path / "kiqbridge"
    command.write_text("#!/bin/sh\n", encoding="utf-8")
    command.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(TEXT.replace(COMMAND, str(command)), encoding="utf-8")
    return unit


def analyze(*arguments):
    run = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.systemd
class TestAsSystemdReadsIt:
    def test_it_verifies_clean(self, installed):
        assert analyze("verify", "--man=no", "--recursive-errors=no", installed) == (0, "")

    def test_it_is_exposed_little(self, installed):
        code, told = analyze("security", "--offline=true", "--threshold=20", installed)

        assert code == 0, told


class TestStoppingAndStarting:
    def test_systemd_waits_longer_than_the_worker_does(self):
        [timeout] = [
            int(entry.removeprefix("KIQBRIDGE_TIMEOUT_S="))
            for entry in values("Environment")
            if entry.startswith("KIQBRIDGE_TIMEOUT_S=")
        ]
        [stop] = map(int, values("TimeoutStopSec"))

        assert timeout + 10 <= stop

    def test_term_drains_it_and_it_comes_back(self):
        assert values("KillSignal") == ["SIGTERM"]
        assert values("Restart") == ["always"]

    def test_it_is_started_when_it_says_so_however_long_redis_is_away(self):
        assert values("Type") == ["notify"]
        assert values("NotifyAccess") == ["main"]
        assert values("TimeoutStartSec") == ["infinity"]

    def test_the_watchdog_acts_on_no_worker_that_still_owns_its_jobs(self):
        [watchdog_s] = map(int, values("WatchdogSec"))

        assert watchdog_s / 2 > STALE_AFTER_S

    def test_it_may_send_what_systemd_waits_for(self):
        [families] = values("RestrictAddressFamilies")

        assert "AF_UNIX" in families.split()

    def test_its_variables_are_those_that_the_worker_reads(self):
        known = {variable for setting in SETTINGS for variable in setting.env}

        assert {entry.strip('"').partition("=")[0] for entry in values("Environment")} <= known

    def test_the_address_is_in_a_file_and_not_in_the_unit(self):
        assert values("EnvironmentFile") == ["/etc/kiqbridge/worker.env"]
        assert "redis://" not in TEXT
        assert "rediss://" not in TEXT
