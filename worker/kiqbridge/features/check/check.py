"""All that is found in a template, its schedules and its mappings."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kiqbridge.errors import ConfigError
from kiqbridge.features.check.events import event_problems
from kiqbridge.features.check.inputs import Application, input_problems
from kiqbridge.features.check.rights import right_problems
from kiqbridge.features.check.view import View
from kiqbridge.features.mappings import declared
from kiqbridge.features.mappings.check import check as check_mappings
from kiqbridge.features.mappings.document import find, load
from kiqbridge.schedule.check import allow_list_problems
from kiqbridge.schedule.template import ENQUEUE_CODE_URI, TemplateSchedule, read_schedules
from kiqbridge.schedule.yaml_nodes import TemplateError, TemplateFault

_S3: Final = "s3"


def check_template(path: Path, answers: Mapping[str, str], application: Application) -> list[str]:
    """A line for each finding: file, resource, what happens, what to do.

    Args:
        path: the template; the mappings are looked for in the function's folder beside it.
        answers: parameters of `make deploy`; others have their defaults.
        application: what the rules are held against.
    """
    found: list[str] = []
    schedules: list[TemplateSchedule] = []
    try:
        schedules = read_schedules(path, answers)
        found += map(str, allow_list_problems(schedules))
    except TemplateError as error:
        found += map(str, error.problems)
    try:
        view = View(path, answers)
        mapped, faults = _mappings(path.parent / ENQUEUE_CODE_URI, schedules)
        found += faults
        found += map(str, event_problems(view, mapped))
        found += map(str, right_problems(view))
        found += map(str, input_problems(view, schedules, application))
    except TemplateFault as fault:
        found.append(f"{path}:{fault.line}: {fault.text}")
    except ConfigError as error:
        found += str(error).splitlines()
    return list(dict.fromkeys(found))


def _mappings(
    folder: Path, schedules: Sequence[TemplateSchedule]
) -> tuple[frozenset[str] | None, list[str]]:
    """Which sources the function's mappings take, and what is wrong with them."""
    path = find(folder)
    document = None if path is None else load(path)
    if document is None:
        return frozenset(), []
    faults = check_mappings(document, folder, schedules)[1]
    if faults:
        return None, faults
    mappings = declared.read(document).mappings
    globs = [glob for each in mappings for glob in each.match.get("source", ("*",))]
    return frozenset({_S3} if any(fnmatchcase(_S3, glob) for glob in globs) else ()), []
