"""Schedules as AWS writes them: EventBridge's expressions, and the rules of a CloudFormation template.

`kiqbridge dev`, the checks of a template and the tests call it. It must never need an AWS account.
"""

from pathlib import Path
from typing import Final

TEMPLATE: Final = Path("template.yaml")
"""Where commands look for one, in the folder in which a project is worked on."""
ANSWERS: Final = Path("samconfig.local.toml")
"""In which `make deploy` keeps the parameters, beside the template."""
