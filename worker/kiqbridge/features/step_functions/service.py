"""The three calls to AWS Step Functions, and what their errors mean.

boto3 is imported at the first call, not before: most workers never see a job with a task token. Each call is
made once and bounded in time; who calls repeats it.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.redaction import HIDDEN

CONNECT_S: Final = 3.0
READ_S: Final = 10.0
"""Seconds that one call may take; the service answers within milliseconds."""

_NOBODY_WAITS: Final = frozenset({"TaskDoesNotExist", "TaskTimedOut", "InvalidToken"})
_CANNOT_BE: Final = frozenset({"ValidationException"})
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429


class NobodyWaits(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The task has timed out, was stopped, or has its outcome already; the message is the error's code."""


class OutputRefused(KiqbridgeError):  # noqa: N818 - reads as what happened
    """Step Functions does not take the output as JSON."""


class CallFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The call may succeed later; the message is for the log.

    Attributes:
        is_service: other calls would fail now as well: the service is away, or throttles.
    """

    def __init__(self, message: str, *, is_service: bool) -> None:
        super().__init__(message)
        self.is_service = is_service


class StepFunctions:
    """A client that is made when it is first needed; used by several threads.

    `connect` makes the client; for tests.
    """

    def __init__(self, connect: Callable[[], Any] | None = None) -> None:
        self._connect = connect or _connect
        self._client: Any = None
        self._making = threading.Lock()

    def succeed(self, token: str, output: str) -> None:
        """SendTaskSuccess with JSON text. Raises as `heartbeat`, and `OutputRefused`."""
        self._call("send_task_success", token, output=output)

    def fail(self, token: str, error: str, cause: str) -> None:
        """SendTaskFailure. Raises as `heartbeat`."""
        self._call("send_task_failure", token, error=error, cause=cause)

    def heartbeat(self, token: str) -> None:
        """SendTaskHeartbeat.

        Raises:
            NobodyWaits: the task does not wait any more; so it is with each further call.
            CallFailed: repeat it later.
        """
        self._call("send_task_heartbeat", token)

    def _call(self, name: str, token: str, **parameters: str) -> None:
        client = self._made()
        from botocore.exceptions import (  # noqa: PLC0415 - see above
            BotoCoreError,
            ClientError,
            ParamValidationError,
        )

        try:
            getattr(client, name)(taskToken=token, **parameters)
        except ClientError as error:
            raise _meaning(
                error.response, str(error), token
            ) from None  # its message may hold the token
        except ParamValidationError:
            raise NobodyWaits("ParamValidationError") from None
        except BotoCoreError as error:
            raise CallFailed(
                _without(token, f"{type(error).__name__}: {error}"), is_service=True
            ) from None
        except Exception as error:  # noqa: BLE001 - of the HTTP library; whatever it is, the report must stay
            raise CallFailed(type(error).__name__, is_service=True) from None

    def _made(self) -> Any:
        """The client.

        Raises:
            CallFailed: boto3 is not installed, or has no region.
        """
        with self._making:
            if self._client is None:
                try:
                    self._client = self._connect()
                except ImportError as error:
                    raise CallFailed(
                        f"{error}; jobs with a task token need boto3: install kiqbridge[aws]",
                        is_service=True,
                    ) from None
                except Exception as error:  # noqa: BLE001 - such as NoRegionError
                    raise CallFailed(f"{type(error).__name__}: {error}", is_service=True) from None
            return self._client


def _meaning(response: Any, message: str, token: str) -> KiqbridgeError:
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _NOBODY_WAITS or code in _CANNOT_BE:
        return NobodyWaits(code)
    if code == "InvalidOutput":
        return OutputRefused(code)
    is_service = status >= _SERVER_ERROR or status == _TOO_MANY or "Throttl" in code
    return CallFailed(_without(token, message), is_service=is_service)


def _without(token: str, message: str) -> str:
    return message.replace(token, HIDDEN)


def _connect() -> Any:
    import boto3  # noqa: PLC0415 - 145 ms, for jobs with a task token alone
    from botocore.config import Config  # noqa: PLC0415 - as above

    for name in ("boto3", "botocore", "urllib3"):
        # At level debug they log what they send: the token.
        logging.getLogger(name).setLevel(
            max(logging.INFO, logging.getLogger(name).getEffectiveLevel())
        )
    return boto3.client(
        "stepfunctions",
        config=Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            retries={"total_max_attempts": 1},
            max_pool_connections=2,
        ),
    )
