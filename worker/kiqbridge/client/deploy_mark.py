"""What `Client.deploy_mark` returns."""

from kiqbridge.runtime.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployMark:
    """What became of a mark.

    Attributes:
        label: what was to be marked.
        at: the minute, in ISO 8601 and UTC, at which it stands or was found.
        standing: the label that stands at that minute; one is kept per minute, the first.
        new: this call wrote it; False also if it was there already.
    """

    label: str
    at: str
    standing: str
    new: bool
