"""`kiqbridge schedule`: see when schedules are due, check, simulate and import them; save, pause and run them.

They are those of templates (EventBridge's expressions), crontab lines and dynamic ones.
"""

import argparse

from kiqbridge.commands import arguments, schedule_due, schedule_list
from kiqbridge.commands.pause_command import add_pause_verbs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of schedule."""
    verbs = arguments.add_verbs(parser)
    for module in (schedule_due, schedule_list):
        module.add_arguments(verbs)
    about = "Pause schedules, those of templates as well: what comes due meanwhile is not caught up. What was placed "
    about += "ahead is withdrawn; jobs that are in a queue run."
    add_pause_verbs(verbs, "schedule", "stop schedules from firing", description=about)
