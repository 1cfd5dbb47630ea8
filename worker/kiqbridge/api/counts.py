"""What was measured of a class, in a bucket or in all."""

from typing import NamedTuple


class Counts(NamedTuple):
    """The measurements of a class. A page has tens of thousands of them.

    Attributes:
        executions: those that failed included.
        failures: executions that raised.
        ms: milliseconds of the executions that did not fail.
    """

    executions: int = 0
    failures: int = 0
    ms: int = 0

    def __bool__(self) -> bool:
        return self.executions > 0

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override] # these are numbers
        return Counts(
            executions=self.executions + other.executions,
            failures=self.failures + other.failures,
            ms=self.ms + other.ms,
        )

    @property
    def average_ms(self) -> float | None:
        """Milliseconds of an execution that succeeded; None if none did (§12.4)."""
        succeeded = self.executions - self.failures
        return self.ms / succeeded if succeeded > 0 else None
