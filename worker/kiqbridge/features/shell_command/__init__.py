"""The job `ShellCommand`, which runs a command of an imported crontab that the worker's settings list.

For those who move a crontab here. It is declared only where `shell_commands` is set. It must never run what is not
listed, from any client, or let a variable of the worker into a command that is not asked for.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, settings=["shell_commands"], jobs="shell_job:declare")
