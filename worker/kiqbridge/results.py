"""Results of jobs that ask for it by `result_ttl`: `await_result`, `aawait_result`, `fetch_result`."""

from kiqbridge.errors import JobFailed, ResultOmitted, ResultTimeout
from kiqbridge.features.results.kept import Result
from kiqbridge.features.results.waiting import aawait_result, await_result, fetch_result

__all__ = [
    "JobFailed", "Result", "ResultOmitted", "ResultTimeout", "aawait_result", "await_result",
    "fetch_result",
]  # fmt: skip
