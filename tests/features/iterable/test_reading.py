"""`kiqbridge.api` reads how far iterable jobs are, whoever wrote it."""

import json

import pytest
from support.vectors import FILES, of_kind, put_state

from kiqbridge.api import fetch_iterations


def test_progress_is_read_as_it_was_saved(redis, operator):
    redis.hset("it-abc", mapping={"ex": 3, "c": '{"id":42}', "rt": "12.5"})
    redis.hset("it-gone", mapping={"cancelled": 1_770_015_780})
    redis.hset("it-odd", mapping={"ex": "x", "c": "{", "rt": "y"})

    found = fetch_iterations(["abc", "gone", "odd", "none", "", "abc"], operator)

    assert list(found) == ["abc", "gone", "odd"]
    assert (found["abc"].executions, found["abc"].runtime_s) == (3, 12.5)
    assert (found["abc"].cursor, found["abc"].cursor_text) == ({"id": 42}, '{"id":42}')
    assert found["abc"].cancelled_at is None
    assert (found["gone"].cursor, found["gone"].cancelled_at) == (None, 1_770_015_780.0)
    assert (found["odd"].executions, found["odd"].cursor) == (0, None)
    assert fetch_iterations([], operator) == {}


@pytest.mark.parametrize(("file", "name"), of_kind("iteration"))
def test_what_sidekiq_recorded_of_its_iterable_jobs_is_read(file, name, redis, operator):
    keys = [each for each in FILES[file][name].get("keys", []) if each["key"].startswith("it-")]
    if not keys:  # it was deleted when the job was done
        assert "it-" in json.dumps(FILES[file][name])
        return
    put_state(redis, keys)

    found = fetch_iterations([each["key"][3:] for each in keys], operator)

    assert [str(each.executions) for each in found.values()] == [
        each["value"]["ex"] for each in keys
    ]
    assert [each.cursor_text for each in found.values()] == [each["value"]["c"] for each in keys]
