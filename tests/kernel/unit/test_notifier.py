"""The report on processes, for whoever is notified of it."""

from dataclasses import replace

from kiqbridge.engine.host.status import Status
from kiqbridge.engine.host.surroundings import report_of

NOW = 10_000.0
WORKER = Status(
    identity="host:7:0123456789ab",
    pid=7,
    state="running",
    written_at=NOW,
    heartbeat_at=NOW - 5,
    beat_s=10,
    is_leased=True,
    ended_threads=[],
    busy=3,
    concurrency=10,
)


class TestTheReport:
    def test_an_outage_of_redis_is_told_and_no_fault(self):
        assert report_of([WORKER], NOW) == ("running, 3 of 10 busy", [])
        away = replace(WORKER, is_leased=False, heartbeat_at=NOW - 300)
        line, faults = report_of([away], NOW)
        assert line.split("; ") == [
            "running, 3 of 10 busy",
            "Redis has not confirmed its lease",
            "Redis has taken no heartbeat for 300 s",
        ]
        assert faults == []
        assert report_of([], NOW) == ("no process runs, 0 of 0 busy", [])

    def test_a_thread_that_ended_is_a_fault_also_in_one_process_of_a_supervisor(self):
        sick = replace(WORKER, state="quiet", ended_threads=["lease"])
        fault = "its thread lease has ended"
        assert report_of([sick], NOW) == ("quiet, 3 of 10 busy", [fault])
        well = replace(WORKER, supervisor=1)
        sick = replace(well, pid=8, ended_threads=["lease"])
        stopping = replace(well, pid=9, state="stopping", busy=0)
        told = "2 running, 1 stopping, 6 of 30 busy"
        assert report_of([well, sick, stopping], NOW) == (told, [f"process 8: {fault}"])

    def test_a_silent_process_is_its_supervisors_matter(self):
        silent, told = replace(WORKER, written_at=NOW - 30), "it has said nothing for 30 s"
        line = "running, 3 of 10 busy"
        assert report_of([silent], NOW) == (line, [told])
        assert report_of([replace(silent, supervisor=1)], NOW) == (f"{line}; {told}", [])
