"""One job per pool: it notes the name of its case, and fails if it is told to."""

from typing import Any

from support.evidence import testify

from kiqbridge import job


def perform(case: Any, *wishes: object) -> None:
    testify(case, "ran")
    if "fail" in wishes:
        raise ValueError("as it was told")


def later(*_of_the_failure: object) -> int:
    """However long a test takes, none of them runs again in it."""
    return 30 * 86_400


@job(name="Thread", retry_in=later)
def thread(case: Any, *wishes: object) -> None:
    perform(case, *wishes)


@job(name="Loop", retry_in=later)
async def loop(case: Any, *wishes: object) -> None:
    perform(case, *wishes)


@job(name="Process", pool="process", retry_in=later)
def process(case: Any, *wishes: object) -> None:
    perform(case, *wishes)
