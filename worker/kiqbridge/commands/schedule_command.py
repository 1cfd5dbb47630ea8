"""`kiqbridge schedule`: its verbs, each in a module of its own."""

import argparse

from kiqbridge.commands import (
    schedule_history,
    schedule_hold,
    schedule_import,
    schedule_lint,
    schedule_list,
    schedule_next,
    schedule_plan,
    schedule_publish,
    schedule_save,
    schedule_simulate,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of schedule."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    schedule_next.add_arguments(verbs)
    schedule_list.add_arguments(verbs)
    schedule_lint.add_arguments(verbs)
    schedule_plan.add_arguments(verbs)
    schedule_simulate.add_arguments(verbs)
    schedule_import.add_arguments(verbs)
    schedule_history.add_arguments(verbs)
    schedule_publish.add_arguments(verbs)
    schedule_save.add_arguments(verbs)
    schedule_hold.add_arguments(verbs)
