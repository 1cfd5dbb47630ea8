"""Broken systems for the doctor: processes and jobs as others write them, and what is found."""

import json
import time
from contextlib import closing

from kiqbridge.api import open_operator
from kiqbridge.api.verdict import Finding, Status
from kiqbridge.features.doctor.examination import examine
from kiqbridge.features.doctor.finding import Selection

JID = "b4a577edbccf1d805744efa9"


def found(url: str, *, namespace: str = "", areas=(), **more) -> list[Finding]:
    """All findings about a server, those included that find nothing."""
    operator = open_operator(url, namespace=namespace, via="test")
    with closing(operator.pool):
        return examine(operator, selection=Selection(areas=areas), **more)


def wrong(url: str, **more) -> list[Finding]:
    """The findings that are not ok; each has a reason and an action."""
    findings = [each for each in found(url, **more) if each.status is not Status.OK]
    for each in findings:
        assert each.why, each
        assert each.do, each
    return findings


def only(url: str, rule: str, status: str = "warning", **more) -> Finding:
    """The one thing that is wrong, which this rule found."""
    findings = wrong(url, **more)
    assert [(each.rule, each.status.value) for each in findings] == [(rule, status)], findings
    return findings[0]


def job(**more) -> str:
    """The text of a job as a client writes it."""
    item = {
        "class": "Mail",
        "args": [],
        "queue": "default",
        "jid": JID,
        "created_at": time.time() + 0.5,
        "retry": True,
        **more,
    }
    return json.dumps({name: value for name, value in item.items() if value is not ...})


def enqueue(redis, *texts: str | bytes, queue: str = "default", prefix: str = "") -> None:
    """Put texts into a queue as a client does."""
    redis.sadd(f"{prefix}queues", queue)
    redis.lpush(f"{prefix}queue:{queue}", *texts)


def beat(
    redis,
    name: str = "py-1",
    *,
    queues=("default",),
    version: str = "kiqbridge-0.1.0",
    classes=("Mail",),
    fields=None,
    silent_s=0,
    **info,
) -> str:
    """Register a process as its heartbeat did so many seconds ago; its identity."""
    identity = f"{name}:1:abcdef"
    ours = version.startswith("kiqbridge")
    shown = {
        "hostname": name,
        "started_at": time.time(),
        "pid": 1,
        "tag": "",
        "concurrency": 10,
        "queues": list(queues),
        "weights": [dict.fromkeys(queues, 0)],
        "labels": ["kiqbridge"] if ours else [],
        "identity": identity,
        "version": version,
        "embedded": False,
        **info,
    }
    own = {"kb_classes": json.dumps(classes)} if ours and classes is not None else {}
    redis.sadd("processes", identity)
    redis.hset(
        identity,
        mapping={
            "info": json.dumps(shown),
            "concurrency": "10",
            "busy": "0",
            "beat": str(time.time() - silent_s),
            "rtt_us": "120",
            "quiet": "false",
            "rss": "50000",
            **own,
            **(fields or {}),
        },
    )
    redis.expire(identity, 60 - silent_s)
    return identity
