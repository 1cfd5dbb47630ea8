"""`/prometheus` gives a scraper what the pages show."""

from starlette.testclient import TestClient

from kiqbridge.api import open_operator
from kiqbridge.web import create_app


def test_a_scraper_gets_the_numbers_and_all_scrapers_together_cost_one_look(redis, redis_url):
    redis.sadd("queues", "default")
    redis.lpush("queue:default", b'{"class":"Mail","args":[]}')
    operator = open_operator(redis_url, by="ann")
    with TestClient(create_app(operator=operator), base_url="http://127.0.0.1") as client:
        before = redis.info("commandstats").get("cmdstat_llen", {"calls": 0})["calls"]
        answers = [client.get("/prometheus") for _ in range(3)]
        after = redis.info("commandstats")["cmdstat_llen"]["calls"]
    operator.client.close()

    assert {answer.status_code for answer in answers} == {200}
    assert answers[0].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'kiqbridge_queue_size{queue="default"} 1.0\n' in answers[0].text
    assert after - before <= 4  # two for each look, and a second may pass
