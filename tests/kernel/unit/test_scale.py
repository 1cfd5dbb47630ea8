"""What `make scale` simulates: no job is left behind, and only those of the event wait."""

import pytest
from scale import CORE, EVENTS, PRIMARIES, simulate


@pytest.mark.parametrize("event", EVENTS, ids=[event.name for event in EVENTS])
@pytest.mark.parametrize("primaries", PRIMARIES)
def test_all_jobs_are_performed_and_fleets_elsewhere_do_not_wait(event, primaries):
    found = simulate(event, primaries)

    assert found.left == 0
    assert found.longest_s == pytest.approx(event.seconds)
    assert found.others_s == pytest.approx(0, abs=1e-6)
    assert found.core[0] < found.core[1] < CORE + 1e-6
