"""What a process cannot do until somebody changes something: the reasons why it is not ready."""

import json
from collections.abc import Iterator


class Troubles:
    """Reasons by name. From any thread, at once; takes no lock, since the status of the process is made of it.

    `kiqbridge health --ready` fails with each of them, the page and the doctor show them. Whoever sets one logs it.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Troubles({self._texts})"

    def __iter__(self) -> Iterator[str]:
        """The texts, in the order in which their names were set first."""
        return iter(list(self._texts.values()))

    def set(self, name: str, text: str) -> None:
        """Something cannot be done until it is changed.

        Args:
            name: what cannot be done, such as "poller"; a text that was set under it before is replaced.
            text: what happened, and what to do; one line without a full stop, and without a secret.
        """
        self._texts[name] = text

    def clear(self, name: str) -> bool:
        """It can be done again; False: nothing was set."""
        return self._texts.pop(name, None) is not None

    def fields(self) -> dict[str, str]:
        """For the process' hash: a JSON list; empty if there are none."""
        texts = list(self)
        return {"kb_troubles": json.dumps(texts, separators=(",", ":")) if texts else ""}
