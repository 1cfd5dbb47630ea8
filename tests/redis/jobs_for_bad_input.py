"""One job per pool: it notes the name of its case, and fails if it is told to."""

from typing import Any

from support.evidence import testify

from kiqbridge import job


def perform(case: Any, *wishes: object) -> None:
    testify(case, "ran")
    if "fail" in wishes:
        raise ValueError("as it was told")


@job(name="Thread")
def thread(case: Any, *wishes: object) -> None:
    perform(case, *wishes)


@job(name="Loop")
async def loop(case: Any, *wishes: object) -> None:
    perform(case, *wishes)


@job(name="Process", pool="process")
def process(case: Any, *wishes: object) -> None:
    perform(case, *wishes)
