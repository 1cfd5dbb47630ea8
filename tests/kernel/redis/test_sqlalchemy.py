"""Jobs enqueued within a transaction of SQLAlchemy, on a real SQLite file and a real server."""

import asyncio
import gc
import json
import logging
import threading
import weakref
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.ext.asyncio import async_sessionmaker as async_maker
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session
from sqlalchemy.orm import sessionmaker as maker

from kiqbridge import Job, PayloadError, RedisUnavailable, configure, job
from kiqbridge.client.default_client import default_client, own_default_client
from kiqbridge.client.middleware import COLLECTOR
from kiqbridge.contrib import after_commit as core
from kiqbridge.contrib.sqlalchemy import after_commit, on_push_failed
from kiqbridge.testing import fake

pytestmark = pytest.mark.any_server


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


@job(name="SqlReceipt", queue="mailers")
def send_receipt(order: object, copy: bool = False) -> None: ...


class Ship(Job):
    class_name = "SqlShip"

    def perform(self, order: int) -> None: ...


@pytest.fixture
def engine(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    sqlite_savepoints(engine)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def sqlite_savepoints(engine):
    """Python's driver begins no transaction before a SAVEPOINT; SQLAlchemy's documentation says to do so."""

    @event.listens_for(engine, "connect")
    def connect(connection, _record):
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection):
        connection.exec_driver_sql("BEGIN")


@pytest.fixture(autouse=True)
def configured(redis_url):
    with own_default_client():
        client = configure(redis_url)
        yield client
        client.close()


def pushed(redis, queue="mailers"):
    return [json.loads(text) for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


def test_a_job_is_pushed_when_the_transaction_commits_and_not_before(engine, redis):
    order = {"id": 1}
    with Session(engine) as session, session.begin():
        session.add(Order(name="a"))
        jid = after_commit(session, send_receipt).perform_async(order, copy=True)
        order["id"] = 2  # too late
        session.flush()
        assert pushed(redis) == []
        send_receipt.perform_async("at once")
        assert len(pushed(redis)) == 1

    payload = pushed(redis)[1]
    assert (payload["jid"], payload["class"]) == (jid, "SqlReceipt")
    assert payload["args"] == [{"id": 1}, True]
    assert payload["enqueued_at"] >= payload["created_at"]


def test_a_rollback_drops_it_and_so_do_a_failed_flush_and_closing_without_a_commit(engine, redis):
    with Session(engine) as session:
        session.add(Order(name="a"))
        after_commit(session, send_receipt).perform_async(1)
        session.rollback()
        session.commit()
        after_commit(session, send_receipt).perform_async(2)
        session.add(Order(name="b"))
    with suppress(LookupError), Session(engine) as session, session.begin():
        after_commit(session, send_receipt).perform_async(3)
        raise LookupError
    with Session(engine) as session:
        session.add_all([Order(name="same"), Order(name="same")])
        after_commit(session, send_receipt).perform_async(4)
        with pytest.raises(Exception, match="UNIQUE"):
            session.commit()
        session.rollback()
        after_commit(session, send_receipt).perform_async(5)
        session.commit()

    assert [each["args"] for each in pushed(redis)] == [[5]]


def test_a_savepoint_drops_only_what_came_since(engine, redis):
    with Session(engine) as session, session.begin():
        enqueue = after_commit(session, send_receipt).perform_async
        enqueue("before")
        with session.begin_nested() as first:
            enqueue("in the first")
            with session.begin_nested():
                enqueue("nested in the first")
            first.rollback()
        with session.begin_nested():
            with session.begin_nested():
                enqueue("dropped after its release")
            inner = session.begin_nested()
            enqueue("dropped")
            inner.rollback()
            session.begin_nested()
            enqueue("dropped with what is around it")
            session.get_nested_transaction().parent.rollback()
        session.begin_nested()
        enqueue("released")
        session.flush()
        session.get_nested_transaction().commit()
        assert pushed(redis) == []
        enqueue("after")

    assert sorted(each["args"][0] for each in pushed(redis)) == ["after", "before", "released"]


def test_one_session_serves_many_transactions_and_is_not_kept(engine, redis):
    session = Session(engine)
    for number in range(3):
        with session.begin():
            after_commit(session, send_receipt).perform_async(number)
    after_commit(session, send_receipt).perform_async("outside of a transaction")
    assert not session.in_transaction()
    session.commit()
    session.commit()
    session.close()
    kept = weakref.ref(session)
    del session
    gc.collect()

    args = [each["args"][0] for each in pushed(redis)]
    assert args == [0, 1, 2, "outside of a transaction"]
    assert kept() is None


def test_all_ways_to_enqueue_wait(engine, redis):
    with Session(engine) as session, session.begin():
        later = after_commit(session, send_receipt)
        later.perform_in(3600, 1)
        later.perform_at(4_000_000_000, 2)
        jids = later.perform_bulk([[3], [4]])
        later.set(queue="low").perform_async(5)
        after_commit(session, send_receipt.set(queue="low")).perform_async(6)
        after_commit(session, Ship).perform_async(7)
        assert redis.keys() == []

    assert [each["jid"] for each in pushed(redis)] == jids
    assert [each["args"] for each in pushed(redis, "low")] == [[5], [6]]
    assert [each["class"] for each in pushed(redis, "default")] == ["SqlShip"]
    scheduled = redis.zrange("schedule", 0, -1)
    assert [json.loads(text)["args"] for text in scheduled] == [[1], [2]]
    assert all(b"enqueued_at" not in text and b'"at"' not in text for text in scheduled)


def test_what_cannot_be_a_job_is_refused_at_the_call(engine, redis):
    with Session(engine) as session, session.begin():
        with pytest.raises(PayloadError, match="cannot be called like this"):
            after_commit(session, Ship).perform_async()
        with pytest.raises(PayloadError, match="args"):
            after_commit(session, send_receipt).perform_async(object())

    assert redis.keys() == []


def test_a_job_that_waits_is_refused_by_a_batch_which_is_written_before(engine, redis):
    token = COLLECTOR.set(SimpleNamespace(takes_from=lambda _client: True))
    with Session(engine) as session:
        with pytest.raises(PayloadError, match="make the batch after the commit"):
            after_commit(session, send_receipt).perform_async(1)
        COLLECTOR.reset(token)
        session.commit()

    assert pushed(redis) == []


def test_middleware_runs_at_the_call_and_may_stop_it(engine, redis, configured):
    seen = []

    def only_even(_job, payload, _queue, call_next):
        seen.append(payload["args"][0])
        return call_next() if payload["args"][0] % 2 == 0 else None

    configured.middleware.add(only_even)
    with Session(engine) as session, session.begin():
        later = after_commit(session, send_receipt)
        assert later.perform_async(1) is None
        jids = later.perform_bulk([[2], [3]])
        assert seen == [1, 2, 3]

    assert jids[1] is None
    assert [each["jid"] for each in pushed(redis)] == jids[:1]
    assert seen == [1, 2, 3]


def test_a_scoped_session_is_that_of_this_thread(engine, redis):
    sessions = scoped_session(maker(engine))
    after_commit(sessions, send_receipt).perform_async(1)
    other = threading.Thread(target=lambda: (sessions.commit(), sessions.remove()))
    other.start()
    other.join()
    assert pushed(redis) == []

    sessions.commit()
    sessions.remove()
    assert len(pushed(redis)) == 1


def test_a_fake_records_it_when_the_transaction_commits(engine):
    with fake() as jobs, Session(engine) as session:
        after_commit(session, send_receipt).perform_async(1)
        jobs.assert_not_enqueued(send_receipt)
        session.commit()
        jobs.assert_enqueued(send_receipt, args=[1])
        after_commit(session, send_receipt).perform_async(2)
        session.rollback()

        jobs.assert_enqueued_count(1)


@contextmanager
def handlers_restored():
    before = list(core._handlers)
    try:
        yield
    finally:
        core._handlers[:] = before


def test_a_push_that_fails_after_the_commit_is_logged_and_handed_over(engine, redis, caplog):
    kept = []
    with own_default_client(), handlers_restored():
        configure("redis://127.0.0.1:1/0")  # nobody listens there

        @on_push_failed
        def fails(_payloads, _error):
            raise OSError("disk full")

        @on_push_failed
        def keep(payloads, error):
            kept.append((payloads, error))

        with caplog.at_level(logging.ERROR), Session(engine) as session, session.begin():
            session.add(Order(name="a"))
            jid = after_commit(session, send_receipt).perform_async(1)
            after_commit(session, send_receipt).perform_in(3600, 2)

    [(payloads, error)] = kept
    assert isinstance(error, RedisUnavailable)
    assert f"SqlReceipt {jid}" in caplog.text and "disk full" in caplog.text
    with Session(engine) as session:
        assert session.query(Order).count() == 1
    first, second = payloads
    assert default_client().push(first) == jid
    assert default_client().push(second) == second["jid"]
    assert pushed(redis)[0]["jid"] == jid
    assert redis.zcard("schedule") == 1


def test_an_asynchronous_session_pushes_without_holding_up_its_loop(tmp_path, redis, monkeypatch):
    threads = []
    push_committed = core.push_committed
    monkeypatch.setattr(
        "kiqbridge.contrib.sqlalchemy.push_committed",
        lambda postponed: (threads.append(threading.current_thread()), push_committed(postponed)),
    )

    async def main():
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add(Order(name="a"))
            after_commit(session, send_receipt).perform_async(1)
            await session.commit()
            after_commit(session, send_receipt).perform_async(2)
            session.add(Order(name="b"))
            await session.flush()
            await session.rollback()
            async with session.begin_nested():
                after_commit(session, send_receipt).perform_async(3)
            await session.commit()
        scoped = async_scoped_session(async_maker(engine), asyncio.current_task)
        after_commit(scoped, send_receipt).perform_async(4)
        await scoped.commit()
        await scoped.remove()
        await engine.dispose()

    asyncio.run(main())

    assert [each["args"] for each in pushed(redis)] == [[1], [3], [4]]
    assert threading.main_thread() not in threads and len(threads) == 3
