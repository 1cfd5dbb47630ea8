"""The key of forms that processes share."""

import threading

from kiqbridge.api import open_operator
from kiqbridge.web.function import fetch_shared_key


def test_the_first_one_makes_it_and_the_others_have_the_same(operator, redis):
    keys = []
    threads = [
        threading.Thread(target=lambda: keys.append(fetch_shared_key(operator))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(keys) == 4 and len(set(keys)) == 1
    assert len(keys[0]) >= 32
    assert redis.get("kb:web:key") == keys[0]


def test_each_namespace_has_its_own(operator, redis_url):
    other = open_operator(redis_url, namespace="other")

    assert fetch_shared_key(other) != fetch_shared_key(operator)
    other.client.close()


def test_whoever_deletes_it_has_a_new_one(operator, redis):
    before = fetch_shared_key(operator)
    redis.delete("kb:web:key")

    assert fetch_shared_key(operator) != before
