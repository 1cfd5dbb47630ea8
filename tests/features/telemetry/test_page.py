"""`/prometheus` gives a scraper what the pages show."""


def test_a_scraper_gets_the_numbers_and_all_scrapers_together_cost_one_look(redis, browser):
    redis.sadd("queues", "default")
    redis.lpush("queue:default", b'{"class":"Mail","args":[]}')
    before = redis.info("commandstats").get("cmdstat_llen", {"calls": 0})["calls"]

    answers = [browser.request("GET", "/prometheus") for _ in range(10)]

    looks = redis.info("commandstats")["cmdstat_llen"]["calls"] - before
    assert {answer.status_code for answer in answers} == {200}
    assert answers[0].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'kiqbridge_queue_size{queue="default"} 1.0\n' in answers[0].text
    assert looks < 10  # two for each look, of which there is one a second
