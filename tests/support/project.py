"""A project as it ships, with rules and jobs that the tests know.

`template.yaml` and `worker/jobs` at the root belong to whoever uses the project: their rules and jobs
may be any. So tests of the tools take the template with the rules of `project/rules.yaml` in the
place of its own, and the jobs of `project/jobs`.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "project" / "jobs"

_RULES = Path(__file__).parent / "project" / "rules.yaml"
_EVENTS = re.compile(r"^      Events:\n(?:        .*\n|\n)*", re.MULTILINE)
_ALLOWED = {
    "AllowedClasses": "NightlyReport,HealthPulse,WeekdayDigest,Billing::*",
    "AllowedQueues": "default,low,mailers,rails",
}


def template_text() -> str:
    """The template at the root with the known rules, and with what they need allowed."""
    source = (ROOT / "template.yaml").read_text(encoding="utf-8")
    rules = _RULES.read_text(encoding="utf-8").split("\n", 1)[1]
    indented = re.sub(r"^(?=.)", " " * 6, rules, flags=re.MULTILINE)
    text, count = _EVENTS.subn(lambda _found: f"{indented}\n", source)
    assert count == 1, "template.yaml has one function with Events"
    for name, value in _ALLOWED.items():
        text, count = re.subn(
            rf"(?m)^(  {name}:\n    Type: String\n    Default: ).*$", rf"\g<1>{value}", text
        )
        assert count == 1, f"template.yaml has the parameter {name}"
    return text


def lay_out(folder: Path) -> Path:
    """Write template, functions and jobs into a folder; returns the template's path."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "lambdas", folder / "lambdas", ignore=ignored)
    shutil.copytree(JOBS, folder / "worker" / "jobs", ignore=ignored)
    template = folder / "template.yaml"
    template.write_text(template_text(), encoding="utf-8")
    return template
