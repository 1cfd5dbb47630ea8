"""The functions read what the table of settings says."""

from support.watched_environment import KEYS_OF_JOBS, Watched, variables_read_by

from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.features.monitor.minute import MonitorSettings
from kiqbridge.features.spill.form import spill_key_of

POWERTOOLS = ("SERVICE_NAME", "LOG_LEVEL", "METRICS_NAMESPACE")


def test_the_functions_read_what_the_table_says():
    environ = Watched()

    Enqueuer.from_environment(environ)
    spill_key_of(environ)  # only where there is a spill queue
    MonitorSettings.from_environment(environ)

    # Messages read the names to hide when they need them, and app.py the others.
    elsewhere = {
        "KIQBRIDGE_REDACT",
        "KIQBRIDGE_TRACING",
        *KEYS_OF_JOBS,
        *(f"POWERTOOLS_{name}" for name in POWERTOOLS),
    }
    assert environ.asked == variables_read_by("function") - elsewhere
