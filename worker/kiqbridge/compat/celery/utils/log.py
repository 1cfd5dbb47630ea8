"""Loggers of tasks."""

import logging

get_task_logger = logging.getLogger
"""Returns the logger of that name, as `celery.utils.log.get_task_logger` does. The worker adds class and jid to each line."""

__all__ = ["get_task_logger"]
