"""Writes docs/doctor.md: each rule of the doctor with what it reports, why, and what to do.

python tests/doctor_page.py          writes the document
python tests/doctor_page.py --check  fails if it is not what the rules say
"""

import sys
from collections.abc import Iterator

from support.documents import ROOT, write_or_check

from kiqbridge.doctor import AREAS, CATALOGUE, Area, Rule

DOCUMENT = ROOT / "docs" / "doctor.md"
COMMAND = "make docs"
HEAD = f"""# The doctor

The rules below are written by `{COMMAND}` from `worker/kiqbridge/doctor/`.

```sh
kiqbridge doctor
```

It examines what goes on now, the server, the jobs in it and the workers at it. It only reads. Each finding says what is so, why
that matters and what to do, the worst first; what is well is only counted. The page `/doctor` of `kiqbridge web` shows the same, but
for what needs the environment of a worker.

**One list judges**: what the area `now` and the rules `memory`, `eviction` and `cluster` find is what the page Now, the metric
`kiqbridge_findings` ([telemetry](telemetry.md)) and the monitor on AWS find, from the same limits: a `problem` is what they call
critical. The alarm `ProblemsAlarm` ([runbooks](runbooks.md)) is on the problems alone; missed ticks have `MissedTicksAlarm`. `kiqbridge health` and the page's `/healthz` answer another question, whether this process
serves: a class that fails is no reason to restart a worker.

| status | meaning |
|---|---|
| `problem` | jobs are lost, late or refused, or will be |
| `warning` | it works, and may not for long, or not as was meant |
| `unknown` | it cannot be read, mostly because a right is missing |
| `ok` | nothing was found |

| exit code | meaning |
|---|---|
| 0 | no problem; with `--strict` no warning either |
| 1 | there is a problem, such as a shard that is away; or a setting is wrong |
| 2 | a wrong call, such as a rule or a shard that does not exist |
| 3 | Redis cannot be reached, or refuses this user; of several shards none can be reached |

| option | |
|---|---|
| `--area redis` | only rules of an area: {", ".join(AREAS)}; may be repeated |
| `--rule ID`, `--ignore ID` | only this rule, or all but this one; may be repeated |
| `--all` | shows the rules that found nothing wrong, too |
| `--strict` | warnings count, for CI |
| `--list` | prints the rules, and examines nothing |
| `--json` | all of them; `{{"redis", "ok", "findings": [{{"rule", "area", "status", "what", "why", "action", "docs"}}]}}`, with `--template` the file's name as `template` in place of `redis` |
| `--needs operator` | whose rights this user must have: `worker` (the default), `function`, `operator`; may be repeated |
| `--stop-timeout 60` | seconds after which the orchestrator kills a worker |
| `--template FILE` | examines a template in place of a running system; needs neither Redis nor AWS |
| `--parameter NAME=VALUE` | of that template; may be repeated |

Run it in the environment of a worker, so that it sees the worker's settings and has its rights in Redis. In a pipeline:

```sh
kiqbridge doctor --template template.yaml --strict
```

It stays small on a large system: at most 200 jobs of a queue or set, 200 queues, 32 MB and two seconds are read, and 10,000
keys are scanned for other namespaces. Findings about jobs say how many were looked at. Rights are tried without being
used: Redis checks them when a command is queued in a transaction, and this one is never run.
"""
AREA_HEADS: dict[Area, str] = {
    "now": "What waits, fails, dies, and does not come. The list of the page Now judges; the numbers are its limits.",
    "redis": "The server.",
    "wire": "Jobs in queues and sets, as Ruby, Python and others wrote them. They are looked at in part.",
    "worker": "Processes of Python and Ruby, by their heartbeats, and the settings of the environment.",
    "template": "A SAM or CloudFormation template and those that it nests (`--template`). Conditions are not decided: what "
    "stands behind one counts as there, and of an `Fn::If` both values count.",
}
assert tuple(AREA_HEADS) == AREAS


def document() -> str:
    return "\n".join([HEAD, *(line for area in AREAS for line in section(area))])


def section(area: Area) -> Iterator[str]:
    yield f"## Rules: {area}\n"
    yield f"{AREA_HEADS[area]}\n"
    for rule in CATALOGUE.values():
        if rule.area == area:
            yield from entry(rule)


def entry(rule: Rule) -> Iterator[str]:
    yield f"### {rule.id}\n"
    yield f"- Reports: {plain(rule.reports)}."
    yield f"- Why: {plain(rule.why)}."
    yield f"- Do: {plain(rule.action)}.\n"


def plain(text: str) -> str:
    """A text in Markdown: what it may hold besides words must stay as it is."""
    return text.replace("*", "\\*").replace("<", "&lt;")


def main(arguments: list[str]) -> int:
    return write_or_check(DOCUMENT, document(), arguments, "the rules say")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
