"""Every screen in a real browser, on what a running system leaves in Redis.

One load of a page shows its data, is examined by axe-core in both colour schemes, at widths from a phone's to
1920 px.
"""

import pytest
from support.browser_view import COLOURS, HEIGHT, RULES, WIDTHS

pytestmark = pytest.mark.browser

SCREENS = {
    "now": ("/", ["critical", "BillingInvoice"]),
    "queues": ("/queues", ["low", "paused", "images move to the new bucket"]),
    "queue": ("/queues/low", ["ResizeImage", "waiting", "ana@example.com"]),
    "busy": ("/busy", ["ImportCustomers", "Reports::Nightly", "HardJob"]),
    "retries": ("/retries", ["SendMail", "SyncCustomer", "TimeoutError", "no reply within"]),
    "retry-groups": ("/retries/groups", ["SendMail", "SyncCustomer"]),
    "scheduled": ("/scheduled", ["SendMail", "ResizeImage"]),
    "dead": ("/dead", ["SendMail", "BillingInvoice", "ConnectionError", "is no number"]),
    "dead-groups": ("/dead/groups", ["SendMail", "BillingInvoice"]),
    "dead-filtered": ("/dead?q=class:Send*+error:conn", ["SendMail", "of the 141"]),
    "dead-confirm": ("/dead?confirm=delete", ["cannot be undone", "No, go back"]),
    "schedules": ("/schedules", ["invoices", "Europe/Paris", "the disk is being moved"]),
    "schedule": ("/schedules/sync-customers", ["missed", "late"]),
    "batches": ("/batches", ["Invoices of June", "not succeeded", "5 of 9 done"]),
    "limiters": ("/limiters", ["erp", "3 of 3", "full"]),
    "limiter": ("/limiters/concurrent/erp", ["SyncCustomer", "web-1:77:5"]),
    "locks": ("/locks", ["Reports::Nightly", "Free"]),
    "metrics": ("/metrics", ["SendMail", "ResizeImage"]),
    "metrics-class": ("/metrics/ResizeImage", ["ResizeImage"]),
    "processes": ("/processes", ["kiqbridge", "rails-1"]),
    "doctor": ("/doctor", []),
    "search": ("/search?q=class:SendMail", ["Dead", "mailers", "How to search"]),
    "audit": ("/audit", []),
    "sources": ("/sources", []),
}
"""Name → path, and what it shows."""


def examine(seen, name):
    """All that is wrong with a page in either colour scheme and at any width."""
    found = []
    for scheme, rules in (("light", RULES), ("dark", COLOURS)):
        seen.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {barrier}" for barrier in seen.find_barriers(rules)]
        seen.keep(f"{name}-{scheme}")
    for width in WIDTHS:
        found += seen.find_overflow(width)
        if width == 375:
            seen.keep(f"{name}-375")
            found += [f"375 px: {barrier}" for barrier in seen.find_barriers()]
    seen.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    return found


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_shows_its_data_without_barriers_at_any_width(view, shop, name):
    path, shown = SCREENS[name]
    view.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    view.go(path)

    assert [text for text in shown if text.casefold() not in view.text.casefold()] == []
    assert examine(view, name) == []
    assert view.page.evaluate("window.hacked") is None


@pytest.mark.parametrize("path", ["/queues/low", "/retries", "/scheduled", "/dead"])
def test_on_a_phone_the_first_screen_shows_jobs_search_and_navigation(plain, shop, path):
    plain.page.set_viewport_size({"width": 375, "height": 740})
    plain.go(path)
    row = plain.page.locator("tbody tr:has(input[name=key])").first

    assert row.bounding_box()["y"] < 600
    assert plain.page.locator("form.search input").is_visible()
    assert plain.page.locator("nav a[href='/busy']").is_visible()
    plain.page.set_viewport_size({"width": 1280, "height": HEIGHT})


@pytest.mark.parametrize("kind", ["retry", "dead", "schedule"])
def test_the_page_of_a_job_shows_all_of_it(view, shop, kind):
    path = {"retry": "/retries", "dead": "/dead", "schedule": "/scheduled"}[kind]
    view.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    view.go(path)
    view.follow("a[href*='/jobs/']:has-text('SendMail') >> nth=0")

    assert "SendMail" in view.page.inner_text("h1")
    assert ("jobs/billing.py" in view.text) is (kind != "schedule")
    assert examine(view, f"job-{kind}") == []


@pytest.mark.parametrize(
    ("batch", "shown"),
    [
        ("Invoices of June", "Letters abroad"),
        ("thumbnails", "not begun"),
    ],
)
def test_the_page_of_a_batch_shows_its_steps_and_jobs(view, shop, batch, shown):
    view.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    view.go("/batches")
    view.follow(f"tbody a:has-text('{batch}') >> nth=0")

    assert shown in view.text
    assert examine(view, f"batch-{batch.replace(' ', '-')}") == []


def test_hostile_texts_are_shown_and_run_nothing(view, shop):
    view.go("/dead?q=class:Hostile")
    view.follow("a[href*='/jobs/']:has-text('Hostile') >> nth=0")

    assert "<script>window.hacked = true</script>" in view.text
    assert "\u202e" not in view.text  # only where it is edited it stays what it is
    for summary in view.page.query_selector_all("summary:visible"):
        summary.click()
    assert examine(view, "job-hostile") == []
    assert view.page.evaluate("window.hacked") is None


def test_what_is_unknown_has_a_page_as_well(context):
    page = context.new_page()
    for path in ("/nowhere", "/jobs/0123456789abcdef01234567", "/schedules/none"):
        answer = page.goto(path)
        assert answer.status == 404, path
        assert page.inner_text("main")
    page.close()


def test_a_page_refreshes_itself(chromium, site, shop):
    context = chromium.new_context(base_url=site)
    page = context.new_page()
    page.goto("/queues/fresh")
    shop.client.push({"class": "JustNow", "queue": "fresh", "args": []})

    page.wait_for_selector("text=JustNow", timeout=15_000)
    context.close()
    assert shop.client.pool.call("DEL", "queue:fresh") == 1


def test_everything_is_reached_by_keyboard_and_seen(view, shop):
    view.page.set_viewport_size({"width": 1280, "height": HEIGHT})
    view.go("/retries")
    view.page.keyboard.press("Tab")
    assert view.page.evaluate("document.activeElement.textContent") == "Skip to content"
    view.page.keyboard.press("Enter")
    assert view.page.evaluate("document.activeElement.id") == "main"

    reached, unseen = set(), []
    for _ in range(120):
        view.page.keyboard.press("Tab")
        state = view.page.evaluate(
            """() => {
              const each = document.activeElement, style = getComputedStyle(each);
              return {name: (each.value || each.textContent || '').trim().slice(0, 40), tag: each.tagName,
                      seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0}
            }"""
        )
        if state["tag"] == "BODY":
            break
        reached.add(state["name"])
        if not state["seen"]:
            unseen.append(state)
    assert unseen == []
    assert {"kill", "delete"} <= reached


def test_keys_search_walk_the_rows_and_open_pages(view, shop):
    view.go("/dead")
    keyboard = view.page.keyboard
    keyboard.press("/")
    assert view.page.evaluate("document.activeElement.name") == "q"
    keyboard.press("j")  # is written
    assert view.page.input_value("[name=q]") == "j"
    view.page.evaluate("document.activeElement.blur()")
    for key in ("j", "j", "k"):
        keyboard.press(key)
    assert view.page.evaluate("document.activeElement.closest('tr').rowIndex") == 1
    keyboard.press("?")
    assert view.page.locator("dialog[open]").is_visible()
    keyboard.press("Escape")
    with view.page.expect_navigation():
        keyboard.press("g")
        keyboard.press("q")
    assert view.page.url.endswith("/queues")


def test_it_works_without_javascript(plain, shop):
    plain.go("/dead")
    plain.page.fill("input[name=q]", "class:SendMail")
    plain.page.press("input[name=q]", "Enter")
    plain.page.wait_for_url("**q=class%3ASendMail")
    assert "BillingInvoice" not in plain.page.inner_text("tbody >> nth=-1")
    waiting = shop.redis.llen("queue:mailers")

    plain.page.click("button[name=one] >> nth=0")

    plain.page.wait_for_selector("[data-notice]")
    assert shop.redis.llen("queue:mailers") == waiting + 1
