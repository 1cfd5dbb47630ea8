"""Results of jobs: what a job returned, or how it failed, kept for the callers that wait for it (docs/how_to/results.md).

For those who enqueue a job and need its answer. `@job(result_ttl=…)` asks for it; a worker loads nothing of it before the
first such job has ended. It must never keep a result of a job that did not ask, nor one without an end.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    wired={"result_ttl": "kept:with_result"},
    values={"result_ttl_s": "kept:asks_for_value"},
    effects=["result"],
    consequences="keeping:keep_result",
    calls={
        "fetch_result": "waiting:fetch_result",
        "fetch_results": "waiting:fetch_results",
        "await_result": "waiting:await_result",
        "aawait_result": "waiting:aawait_result",
    },
)
