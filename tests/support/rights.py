"""The rights that docs/reference/security.md asks for, as ACL SETUSER takes them."""

import re

from support.documents import ROOT


def rules_of(user):
    """What the document says of a user."""
    [block] = re.findall(rf"```text\nuser {user} (.*?)```", _text(), re.DOTALL)
    return block.replace("~myapp:*", "~*").split()


def more_of_operators():
    """What their pages and commands need besides a worker's."""
    behind = _text().partition("## Pages and commands of operators")[2]
    return re.search(r"```text\n(.*?)```", behind, re.DOTALL)[1].split()


def _text():
    return (ROOT / "docs" / "reference" / "security.md").read_text("utf-8")
