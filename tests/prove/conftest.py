"""What a proof runs on, and how `make prove` tells which one runs and how long it took."""

import time

import pytest
from support.fleet import Fleet
from support.proving import size

TOLD = "told"


@pytest.fixture
def fleet(tmp_path):
    """Workers; each proof gives them the address of its own server."""
    marks = tmp_path / "marks"
    marks.mkdir()
    with Fleet("redis://nowhere.invalid:1/0", marks) as fleet:
        yield fleet


class Narrator:
    """Speaks at once, since a full proof takes minutes."""

    def __init__(self, reporter) -> None:
        self._reporter = reporter
        self._began = 0.0
        self._number = 0
        self._total = 0

    def pytest_collection_finish(self, session):
        self._total = len(session.items)

    def pytest_runtest_logstart(self, nodeid):
        self._number += 1
        self._began = time.monotonic()
        self._say(f"== {self._number}/{self._total} {nodeid.rpartition('/')[2]}")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            for name, line in report.user_properties:
                if name == TOLD:
                    self._say(f"   {line}")
            seconds = time.monotonic() - self._began
            self._say(f"   {report.outcome} ({report.when}) after {seconds:.1f} s")

    def _say(self, line):
        self._reporter.ensure_newline()
        self._reporter.write_line(line)
        self._reporter.flush()


@pytest.hookimpl(trylast=True)  # the reporter is made by another plugin's
def pytest_configure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if size() == "full" and reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Narrator(reporter), "kiqbridge-narrator")
