"""What `kiqbridge dev` shows besides the life of each job: tables on request and at the end, and clock changes."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from support.dev_project import interrupt, lines_of, table, wait_for_job
from support.waiting import wait_until

pytestmark = pytest.mark.slow


class TestTheLedgerLine:
    def test_joins_clock_lateness_attempts_and_outcome_once_the_job_has_ended(self, project):
        run = project.dev("--at", "2026-10-25T00:59:30Z", "--speed", "60")
        run.wait_for(lambda: lines_of(run, "ledger"), 30, "a line of the ledger")

        [line] = lines_of(run, "ledger")[:1]
        assert re.search(
            r" HealthPulse +01:00:00Z  by lambda  late \d+\.\d{3} s  attempts 1  done in \d+\.\d{3} s$",
            line,
        )
        assert interrupt(run) == 0
        assert table(run.output, "RULE")[0][3:6] == ["1", "0", "0"], "done, failed, not run"


class TestTheTablesOnRequest:
    def test_come_at_usr1_with_next_firings_and_the_ledger(self, project):
        run = project.dev()
        wait_for_job(run)
        assert "the ledger, newest first" not in run.output

        run.signal(signal.SIGUSR1)
        run.wait_for_output("the ledger, newest first\n")
        run.wait_for(lambda: table(run.output, "INSTANT"), 20, "the rows of the ledger")

        [row] = table(run.output, "INSTANT")
        assert row[1:3] == ["HealthPulse", "lambda"]
        assert run.output.count("NEXT FIRING") == 2
        assert interrupt(run) == 0

    def test_come_at_enter_on_a_terminal(self, project):
        primary, secondary = pty.openpty()
        command = [sys.executable, "-m", "kiqbridge", "dev"]
        # The terminal becomes that of a session of its own, as in a window.
        leader = (
            "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", leader, *command],
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            cwd=project.folder,
            env={**os.environ, "NO_COLOR": "1"},
        )
        os.close(secondary)
        seen = []

        def has(text):
            seen.append(os.read(primary, 65536).decode(errors="replace"))
            return text in "".join(seen)

        try:
            wait_until(lambda: has("Enter shows next firings"), 20, "the line about Enter")
            wait_until(lambda: has(" done "), 20, "a job")
            os.write(primary, b"\n")
            wait_until(lambda: has("the ledger, newest first"), 20, "the table")
            os.write(primary, b"\x03")
            wait_until(lambda: has("Bye."), 20, "the end")
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
            os.close(primary)


class TestTheEnd:
    def test_counts_ticks_and_jobs_of_each_rule_with_the_worst_lateness(self, project):
        run = project.dev(
            "--at",
            "2026-10-24T22:59:30Z",
            "--speed",
            "600",
            "--fire",
            "NightlyReport",
            "--fire",
            "CloseDay",
        )
        run.wait_for(lambda: len(lines_of(run, "done")) > 3, 20, "four jobs")
        assert interrupt(run) == 0

        rows = {row[0]: row[1:] for row in table(run.output, "RULE")}
        assert rows["NightlyReport"][:2] == ["1", "1"]
        assert rows["NightlyReport"][-1] == "at once"
        ticks, jobs, *_, late = rows["HealthPulse"]
        assert int(ticks) == int(jobs) > 1
        assert re.fullmatch(r"\d+\.\d{3} s", late)
        assert rows["CloseDay"][-2] == rows["CloseDay"][1], (
            "a Ruby job, which nobody performs here, is open"
        )
        assert "WeekdayDigest" not in rows


class TestAClockChange:
    def test_is_said_at_its_instant_with_the_rules_that_it_leaves_out(self, project):
        project.change("cron(0 3 * * ? *)", "cron(30 2 * * ? *)")

        run = project.dev("--at", "2026-03-29T00:56:00Z", "--speed", "600")
        run.wait_for(lambda: len(lines_of(run, "clock")) == 2, 20, "two zones")

        told = (
            "Sun 2026-03-29 02:00 CET becomes 03:00 CEST: 02:00 to 03:00 does not exist; "
            "not due: NightlyReport (02:30)"
        )
        assert f"  Europe/Paris: {told}\n" in run.output
        assert any(line.endswith(told) for line in lines_of(run, "clock"))
