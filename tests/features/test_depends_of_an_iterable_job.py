"""What the worker fills is refused where an iterable job declares it."""

import pytest

from kiqbridge import ConfigError, Depends, IterableJob


def test_an_iterable_job_with_a_parameter_that_is_filled_is_refused():
    with pytest.raises(ConfigError, match=r"iterable job.*db"):

        class Walk(IterableJob):
            def build_enumerator(self, db=Depends(object), *, cursor):
                return iter(())

            def each_iteration(self, item, db):
                pass
