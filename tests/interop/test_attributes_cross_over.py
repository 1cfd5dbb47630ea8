"""Attributes of the moment and the locale go along from Ruby to Python and back.

The middleware is Sidekiq's own; of Rails and I18n, which are not installed with it, a stand-in has what
that middleware calls.
"""

from contextvars import ContextVar, copy_context
from pathlib import Path

import pytest
from support.jobs import own_declarations
from support.ruby import run_ruby

from kiqbridge import Client
from kiqbridge.features.current_attributes.middleware import CurrentAttributes, Locale, locale

pytestmark = pytest.mark.interop

DIRECTION = "Attributes cross over"

STAND_IN = Path(__file__).parents[1] / "support" / "rails_stand_in"

CURRENT = f"""
$LOAD_PATH.unshift {str(STAND_IN)!r}
require "sidekiq/middleware/current_attributes"
require "i18n"
require "sidekiq/middleware/i18n"

class Current < ActiveSupport::CurrentAttributes
  attribute :user_id, :tenant, :role
end

Sidekiq::CurrentAttributes.persist(Current)

class AttributesInPython
  include Sidekiq::Worker
  sidekiq_options queue: "attributes-python"
end
"""
JOBS_OF_RUBY = f"""
{CURRENT}
class AttributesInRuby
  include Sidekiq::Worker

  def perform
    testify(jid, [Current.user_id, Current.tenant, I18n.locale].inspect)
  end
end
"""
JOBS_OF_PYTHON = """
from contextvars import ContextVar

from kiqbridge import Job, current_attributes, locale
from support.evidence import testify

USER = ContextVar("user_id", default=None)
TENANT = ContextVar("tenant", default=None)
ROLE = ContextVar("role", default=None)
current_attributes.persist(user_id=USER, tenant=TENANT, role=ROLE)
current_attributes.persist_locale()


class AttributesInPython(Job):
    queue = "attributes-python"

    def perform(self):
        testify(self.jid, (USER.get(), TENANT.get(), ROLE.get(), locale.get()))


class PassOn(Job):
    queue = "attributes-python"

    def perform(self, class_name, queue, jid):
        from kiqbridge.client.default_client import default_client

        default_client().push({"class": class_name, "args": [], "queue": queue, "jid": jid})
"""


@pytest.fixture(scope="module")
def url(server, python_worker, ruby_worker) -> str:
    """A worker of each kind, each with its own queue."""
    with (
        python_worker(JOBS_OF_PYTHON, "-c", "2", "-q", "attributes-python"),
        ruby_worker(JOBS_OF_RUBY, queues=["attributes-ruby"]),
    ):
        yield server.url


@pytest.fixture
def client(url) -> Client:
    """Ours, with both halves."""
    with own_declarations():
        yield Client(url)


@pytest.mark.operation("cattr")
def test_what_rails_has_set_is_set_around_a_python_job(url, evidence):
    script = """
    Current.user_id = 42
    Current.tenant = "acme"
    Current.role = :admin
    answer AttributesInPython.perform_async
    """

    jid = run_ruby(CURRENT + script, url)

    assert evidence.wait(jid).said == "(42, 'acme', 'admin', 'en')"


@pytest.mark.operation("cattr")
def test_what_python_has_set_is_set_around_a_ruby_job(client, evidence):
    user, tenant = ContextVar("user_id"), ContextVar("tenant")
    client.middleware.add(CurrentAttributes({"user_id": user, "tenant": tenant}).save)

    def push():
        user.set(7)
        tenant.set("café")
        return client.push({"class": "AttributesInRuby", "args": [], "queue": "attributes-ruby"})

    jid = copy_context().run(push)

    assert evidence.wait(jid).said == '[7, "café", :en]'


@pytest.mark.operation("cattr")
def test_a_python_job_passes_rubys_attributes_on_to_a_ruby_job(url, evidence):
    script = """
    Current.user_id = 11
    Current.tenant = "passed on"
    Sidekiq::Client.push(
      "class" => "PassOn", "queue" => "attributes-python",
      "args" => ["AttributesInRuby", "attributes-ruby", "a1" * 12]
    )
    answer true
    """

    run_ruby(CURRENT + script, url)

    assert evidence.wait("a1" * 12).said == '[11, "passed on", :en]'


@pytest.mark.operation("locale")
def test_a_locale_of_ruby_is_set_around_a_python_job(url, evidence):
    jid = run_ruby(f"{CURRENT} I18n.locale = :de; answer AttributesInPython.perform_async", url)

    assert evidence.wait(jid).said == "(None, None, None, 'de')"


@pytest.mark.operation("locale")
def test_a_locale_of_python_is_set_around_a_ruby_job(client, evidence):
    client.middleware.add(Locale().save)

    def push():
        locale.set("fr")
        return client.push({"class": "AttributesInRuby", "args": [], "queue": "attributes-ruby"})

    jid = copy_context().run(push)

    assert evidence.wait(jid).said == "[nil, nil, :fr]"
