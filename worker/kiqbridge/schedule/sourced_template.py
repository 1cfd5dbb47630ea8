"""The schedules of a template together with their places: what lists, checks and the doctor read."""

from collections.abc import Iterable

from kiqbridge.schedule.definitions_of_template import definition_of
from kiqbridge.schedule.source_text import block_of, ignored_codes, names_zone
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.schedule.template import TemplateSchedule


def sourced_schedules(
    schedules: Iterable[TemplateSchedule], text: str, *, source: str, stack_name: str
) -> list[SourcedSchedule]:
    """Schedules with file, line and the comments beside them.

    Args:
        schedules: as `read_schedules` gives them.
        text: of the template.
        source: how its file is shown.
        stack_name: under which their ticks are named.

    Raises:
        ConfigError: a policy in a tick cannot be read.
    """
    lines = text.splitlines()
    found = []
    for each in schedules:
        block = block_of(lines, each.line)
        found.append(
            SourcedSchedule(
                definition=definition_of(each, stack_name),
                source=source,
                line=each.line,
                kind=each.kind,
                function=each.function,
                names_zone=names_zone(block),
                ignored=ignored_codes(block),
            )
        )
    return found
