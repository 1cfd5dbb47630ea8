"""Results of jobs that ask for it by `result_ttl`: `await_result`, `aawait_result`, `fetch_result`."""

from kiqbridge.client.results import aawait_result, await_result, fetch_result
from kiqbridge.errors import JobFailed, ResultOmitted, ResultTimeout
from kiqbridge.wire.result import Result

__all__ = [
    "JobFailed",
    "Result",
    "ResultOmitted",
    "ResultTimeout",
    "aawait_result",
    "await_result",
    "fetch_result",
]
