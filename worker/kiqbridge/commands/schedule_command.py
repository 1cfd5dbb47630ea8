"""`kiqbridge schedule`: its verbs, each in a module of its own."""

import argparse
from typing import Final

from kiqbridge.commands import (
    schedule_change,
    schedule_history,
    schedule_import,
    schedule_lint,
    schedule_list,
    schedule_next,
    schedule_plan,
    schedule_publish,
    schedule_simulate,
)
from kiqbridge.commands.arguments import add_example

EXAMPLES: Final = {
    "next": "next --expression 'cron(0 3 * * ? *)' --timezone Europe/Paris --count 5",
    "previous": "previous --crontab '30 8 * * 1-5' --count 3",
    "list": "list --template template.yaml --redis",
    "lint": "lint --template template.yaml",
    "plan": "plan template.yaml template.yaml",
    "simulate": "simulate --template template.yaml --from 2026-10-24 --to 2026-10-26",
    "import": "import crontab --verify 30d",
    "history": "history nightly-report",
    "publish": "publish --template template.yaml --stack shop",
    "save": "save nightly-report --cron '0 3 * * *' --timezone Europe/Paris --class NightlyReport",
    "apply": "apply config/schedule.yml --dry-run",
    "delete": "delete nightly-report --yes",
    "pause": "pause nightly-report --reason 'the warehouse moves' --for 2h",
    "resume": "resume nightly-report",
    "skip": "skip nightly-report --count 2",
    "run": "run nightly-report",
}
"""Verb → a command line that works, behind `kiqbridge schedule`."""


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
    schedule_change.add_arguments(verbs)
    for verb, line in EXAMPLES.items():
        add_example(verbs.choices[verb], f"kiqbridge schedule {line}")
