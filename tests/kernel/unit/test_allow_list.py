"""The allow-list: what is not listed is refused, and the refusal says how to allow it."""

from dataclasses import replace

import pytest

from kiqbridge import NotAllowed
from kiqbridge.aws.allow_list import CLASSES, QUEUES, AllowList, SourceRule
from kiqbridge.aws.record import Sender

WRAPPERS = [
    "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper",
    "Sidekiq::ActiveJob::Wrapper",
]


def allow(classes="*", queues="*"):
    return AllowList.from_environment({CLASSES: classes, QUEUES: queues})


def job(name="Mail", **others):
    return {"class": name, "args": []} | others


@pytest.mark.parametrize(
    ("globs", "name"),
    [
        ("Mail", "Mail"),
        ("Report, Mail ,", "Mail"),
        ("Billing::*", "Billing::Close::Day"),
        ("*Job", "MailJob"),
        ("Mail?", "Mail2"),
        ("Mail[AB]", "MailB"),
        ("*", "anything at all"),
    ],
)
def test_a_class_that_matches_a_glob_passes(globs, name):
    allow(classes=globs).check(job(name))


@pytest.mark.parametrize(
    ("globs", "name"),
    [
        ("Mail", "mail"),
        ("Mail", "Mailer"),
        ("Mail", "Mail\n"),
        ("Mail", " Mail"),
        ("Billing::*", "Billing"),
        ("Billing::*", "Other::Billing::Close"),
        ("Mail,Report", "Mail,Report"),
    ],
)
def test_any_other_class_is_refused(globs, name):
    with pytest.raises(NotAllowed, match=r"class: .* is not among the classes in"):
        allow(classes=globs).check(job(name))


@pytest.mark.parametrize("environ", [{}, {CLASSES: "", QUEUES: ""}, {CLASSES: " ", QUEUES: ",,"}])
def test_nothing_is_allowed_unless_listed(environ):
    with pytest.raises(NotAllowed) as raised:
        AllowList.from_environment(environ).check(job())

    assert str(raised.value) == (
        "class: 'Mail' is refused: KIQBRIDGE_ALLOWED_CLASSES is unset or empty; to allow it add its "
        "name, or a glob such as Billing::*, to that comma-separated list (parameter AllowedClasses "
        "of template.yaml)"
    )


def test_the_queue_is_checked_also_when_the_job_names_none():
    with pytest.raises(
        NotAllowed, match=r"queue: 'default' is not among .*KIQBRIDGE_ALLOWED_QUEUES"
    ):
        allow(queues="mailers").check(job())

    allow(queues="default").check(job())


def test_a_queue_that_retries_go_to_is_checked():
    allow(queues="default").check(job(retry_queue=None))
    active = job(WRAPPERS[0], args=[{"job_class": "Mail", "queue_name": "admin"}])
    for queues, item, told in (
        ("default", job(retry_queue="admin"), "retry_queue: 'admin' is not among"),
        ("*", job(retry_queue=5), "retry_queue: 5 is not among"),
        ("default", active, r"args\[0\].queue_name: 'admin' is not among the queues"),
    ):
        with pytest.raises(NotAllowed, match=told):
            allow(queues=queues).check(item)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_an_active_job_is_matched_by_the_class_it_wraps(wrapper):
    allow(classes="Mail").check(job(wrapper, args=[{"job_class": "Mail"}]))
    allow(classes="Mail").check(job(wrapper, wrapped="Mail", args=[{"job_class": "Mail"}]))


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(
    ("others", "field"),
    [
        ({"args": [{"job_class": "Kernel"}]}, "args[0].job_class: 'Kernel'"),
        ({"args": [{"job_class": "Kernel"}], "wrapped": "Mail"}, "args[0].job_class: 'Kernel'"),
        ({"args": [{"job_class": "Mail"}], "wrapped": "Kernel"}, "wrapped: 'Kernel'"),
        ({"args": [], "wrapped": "Mail"}, "args[0].job_class: None"),
        ({"args": ["Mail"], "wrapped": "Mail"}, "args[0].job_class: None"),
        ({"args": [{"job_class": ["Mail"]}]}, "args[0].job_class: ['Mail']"),
    ],
)
def test_a_wrapper_opens_no_way_around_the_list(wrapper, others, field):
    with pytest.raises(NotAllowed) as raised:
        allow(classes=f"Mail,{wrapper}").check(job(wrapper, **others))

    assert str(raised.value).startswith(field)


def test_a_class_that_is_no_wrapper_cannot_borrow_another_name():
    with pytest.raises(NotAllowed, match="class: 'Kernel'"):
        allow(classes="Mail").check(job("Kernel", wrapped="Mail", args=[{"job_class": "Mail"}]))
    with pytest.raises(NotAllowed, match="wrapped: 'Kernel'"):
        allow(classes="Mail").check(job("Mail", wrapped="Kernel"))


class TestRules:
    """What each source may enqueue, within what all may."""

    ORDERS = SourceRule(
        place="mappings.yml:7 allow[0]",
        sources=("sqs",),
        origins=("arn:*:orders",),
        classes=("Mail", "Bill*"),
        queues=("default", "mailers"),
    )
    BUS = SourceRule(
        place="mappings.yml:9 allow[1]", sources=("bus", "direct"), classes=("*",), queues=("low",)
    )

    def allowed(self, *rules):
        return AllowList(classes=("*",), queues=("*",), rules=rules)

    @pytest.mark.parametrize(
        ("item", "source", "origin"),
        [
            (job(), "sqs", "arn:1:orders"),
            (job("Billing", queue="mailers"), "sqs", "arn:1:orders"),
            (job("Any", queue="low"), "bus", "shop"),
            (job("Any", queue="low"), "direct", ""),
        ],
    )
    def test_what_a_rule_lists_passes(self, item, source, origin):
        self.allowed(self.ORDERS, self.BUS).check(item, Sender(source, origin))

    @pytest.mark.parametrize(
        ("item", "source", "message"),
        [
            (job("Kernel"), "sqs", "class: 'Kernel' is not among the classes of {orders}"),
            (job(queue="low"), "sqs", "queue: 'low' is not among the queues of {orders}"),
            (
                job(WRAPPERS[0], args=[{"job_class": "Kernel"}]),
                "sqs",
                "args[0].job_class: 'Kernel' is not among the classes of {orders}",
            ),
            (
                job(),
                "bus",
                (
                    "source 'bus' and origin 'arn:1:orders' may enqueue nothing: allow in the file of mappings "
                    "lists other sources only; to allow it add an entry with its source, classes and queues"
                ),
            ),
            (job(), "direct", "queue: 'default' is not among the queues of {direct}"),
        ],
    )
    def test_anything_else_of_any_source_is_refused(self, item, source, message):
        rules = (self.ORDERS, replace(self.BUS, sources=("direct",)))
        sender = Sender(source, "" if source == "direct" else "arn:1:orders")
        with pytest.raises(NotAllowed) as raised:
            self.allowed(*rules).check(item, sender)
        orders = "mappings.yml:7 allow[0] for source 'sqs' and origin 'arn:1:orders'"
        told = {"orders": orders, "direct": "mappings.yml:9 allow[1] for source 'direct'"}
        told = {name: f"{text}; to allow it add it there" for name, text in told.items()}
        assert str(raised.value) == message.format(**told)

    def test_one_rule_must_allow_class_and_queue(self):
        mails = replace(self.ORDERS, classes=("Mail",), queues=("mailers",))
        bills = replace(self.ORDERS, classes=("Bill",), queues=("low",))
        allowed = self.allowed(mails, bills)

        allowed.check(job("Bill", queue="low"), Sender("sqs", "arn:1:orders"))
        with pytest.raises(NotAllowed):
            allowed.check(job("Mail", queue="low"), Sender("sqs", "arn:1:orders"))

    def test_one_rule_must_allow_class_queue_and_tick(self):
        ticking = replace(self.BUS, classes=("Mail",), ticks=("shop/*",))
        allowed, bus = self.allowed(self.BUS, ticking), Sender("bus")

        allowed.check(job("Any", queue="low"), bus)
        allowed.check(job("Mail", queue="low"), bus, "shop/Mail")
        for item, schedule in (
            (job("Any", queue="low"), "shop/Mail"),
            (job(queue="low"), "b/Mail"),
        ):
            with pytest.raises(NotAllowed):
                allowed.check(item, bus, schedule)
        with pytest.raises(
            NotAllowed,
            match=r"^tick.schedule: 's' is not among the ticks of map.* for source 'bus'",
        ):
            self.allowed(self.BUS).check(job(queue="low"), bus, "s")

    def test_without_rules_a_direct_invocation_ticks_and_no_other_source(self):
        allowed = AllowList(classes=("*",), queues=("*",))
        allowed.check(job(), schedule="shop/Mail")
        with pytest.raises(
            NotAllowed, match="of source 'sqs': a tick is taken from direct invocations only"
        ):
            allowed.check(job(), Sender("sqs"), "shop/Mail")
        with pytest.raises(NotAllowed, match="source 'direct' may enqueue nothing"):
            self.allowed().check(job())  # an empty list of rules

    def test_a_rule_is_about_invocations_without_an_alias_unless_it_names_one(self):
        iot = replace(self.BUS, aliases=("iot*",))
        item = job(queue="low")

        self.allowed(iot).check(item, Sender("bus", "", "iot-2"))
        self.allowed(replace(iot, aliases=("*",))).check(item, Sender("bus"))
        for rule, alias in ((iot, ""), (self.BUS, "iot")):
            with pytest.raises(NotAllowed, match="may enqueue nothing"):
                self.allowed(rule).check(item, Sender("bus", "", alias))

    def test_no_rule_allows_more_than_the_lists_for_all(self):
        allowed = AllowList(classes=("Mail",), queues=("*",), rules=(self.BUS,))

        with pytest.raises(NotAllowed, match="KIQBRIDGE_ALLOWED_CLASSES"):
            allowed.check(job("Any", queue="low"), Sender("bus"))
