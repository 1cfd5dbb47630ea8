"""The form of the functions' log lines: keys and order of Powertools' formatter, in a third of its time."""

import logging
from datetime import UTC, datetime
from typing import Final

from kiqbridge.runtime import lean_imports

# Its front loads metrics and tracing, of which nothing is used here, and its logger what reads JMESPath.
lean_imports.load(
    "aws_lambda_powertools", ("logging",), late=("aws_lambda_powertools.utilities.jmespath_utils",)
)

from aws_lambda_powertools.logging import Logger  # noqa: E402
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter  # noqa: E402

__all__ = ("LineFormatter", "Logger")

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What each record has; all else are the keys that the caller gave."""


class LineFormatter(LambdaPowertoolsFormatter):
    """Leaves lines with a traceback to Powertools, which compares each key with a list of names otherwise."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        if record.exc_info:
            return super().format(record)
        line = {
            **self.log_format,
            "level": record.levelname,
            "message": record.getMessage(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        line["xray_trace_id"] = self._get_latest_trace_id()
        text: str = self.serialize({name: each for name, each in line.items() if each is not None})
        return text
