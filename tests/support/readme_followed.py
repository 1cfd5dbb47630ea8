"""A copy of the repository in which somebody has done what the README says: its jobs, its rule, what it may enqueue."""

import re
import shutil
import textwrap
from pathlib import Path

from support.documents import ROOT, Block, blocks

LEFT_OUT = (
    "*.egg-info",
    ".git",
    ".venv*",
    ".debian13*",
    ".kiqbridge",
    ".aws-sam",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "build",
    "dist",
)
_EVENTS = "      Events:\n"
_CLASSES = re.compile(r"(- \[)(.*!Ref AllowedClasses\])")


def follow(folder: Path) -> Path:
    """Copy the repository into a folder that is not there yet, and follow its README; returns the folder.

    1. The blocks that begin with the path of a file become that file.
    2. The rule of "A cron rule" is added below the enqueue function's Events, its class to the allowed ones.
    """
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    readme = [block for block in blocks() if block.document == "README.md"]
    for block in readme:
        found = re.match(r"# (worker/jobs/\S+\.py)\n", block.text)
        if found:
            (folder / found[1]).write_text(block.text, encoding="utf-8")
    [rule] = [block for block in readme if "Type: ScheduleV2" in block.text]
    template = folder / "template.yaml"
    template.write_text(with_rule(template.read_text(encoding="utf-8"), rule), encoding="utf-8")
    return folder


def with_rule(text: str, rule: Block) -> str:
    """A template with this rule of the enqueue function, once, and with its class allowed."""
    [name] = re.findall(r'"class": "(\w+)"', rule.text)
    if f'"class": "{name}"' in text:
        return text  # somebody has followed it here already
    before, events, after = text.partition(_EVENTS)
    assert "\n  EnqueueFunction:\n" in before
    text, count = _CLASSES.subn(rf"\g<1>{name}, \g<2>", before)
    assert count == 1
    return f"{text}{events}{textwrap.indent(rule.text, ' ' * 8)}\n{after}"
