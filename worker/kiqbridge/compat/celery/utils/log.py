"""Loggers of tasks."""

import logging

get_task_logger = logging.getLogger
"""As `celery.utils.log.get_task_logger`: the worker puts class and jid on each line."""

__all__ = ["get_task_logger"]
