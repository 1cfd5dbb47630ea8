"""Ruby prints what its jobs take, in the form of our contracts."""

import json
import subprocess
from pathlib import Path

import pytest

from kiqbridge.features.contract.compare import compare
from kiqbridge.features.contract.document import Contract, JobContract, Parameter, read_contract

pytestmark = [pytest.mark.interop, pytest.mark.rails]

DIRECTION = "Ruby and Python each describe their jobs, and both are compared"

SCRIPT = Path(__file__).parents[2] / "contrib" / "ruby" / "kiqbridge_contract.rb"
JOBS = """
require "sidekiq"
require "active_job"

class HardJob
  include Sidekiq::Worker
  sidekiq_options queue: "hard"

  def perform(user_id, name = nil)
  end
end

module Billing
  class CloseDayJob < ActiveJob::Base
    queue_as :billing

    def perform(day, *rest, copy:, lang: "en")
    end
  end
end

class PlainJob < ActiveJob::Base
  self.queue_name_prefix = "app"

  def perform(first = 1, second)
  end
end

class ApplicationJob < ActiveJob::Base
end

class NightlyJob < ApplicationJob
  queue_as :python
end

class SendInvoice
  include Sidekiq::Worker
  sidekiq_options queue: "mail"
end

class Helper
  def perform(nothing)
  end
end
"""


@pytest.mark.operation("contracts")
def test_ruby_prints_the_contract_of_its_jobs(tmp_path, monkeypatch):
    (tmp_path / "jobs.rb").write_text(JOBS)
    monkeypatch.setenv("KIQBRIDGE_ENQUEUES", "send_invoice/2")

    run = subprocess.run(
        ["ruby", "-r", "./jobs.rb", str(SCRIPT)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    contract = read_contract(run.stdout, "ruby")

    assert json.loads(run.stdout)["language"] == "ruby"
    assert set(contract.jobs) == {"HardJob", "Billing::CloseDayJob", "PlainJob"}
    hard = contract.jobs["HardJob"]
    assert (hard.least, hard.most, hard.queue) == (1, 2, "hard")
    assert [each.name for each in hard.parameters] == ["user_id", "name"]
    assert hard.place.startswith("jobs.rb:")
    close = contract.jobs["Billing::CloseDayJob"]
    assert (close.least, close.takes_more, close.queue) == (1, True, "billing")
    assert contract.jobs["PlainJob"].queue == "app_default"
    assert close.active_job and not hard.active_job
    assert [(each.name, each.optional) for each in close.keywords.values()] == [
        ("copy", False),
        ("lang", True),
    ]
    assert set(contract.enqueues) == {"NightlyJob", "SendInvoice", "send_invoice"}
    assert contract.enqueues["NightlyJob"].is_unknown
    python = Contract(
        app="shop",
        language="python",
        jobs={
            "send_invoice": JobContract(parameters=(Parameter(name="number", type="integer"),)),
            "NightlyJob": JobContract(parameters=(Parameter(name="day"),), queue="python"),
        },
        enqueues={"HardJob": JobContract(), "Billing::CloseDayJob": JobContract()},
    )
    assert [(each.job, each.kind) for each in compare([python, contract])] == [
        ("Billing::CloseDayJob", "Active Job"),
        ("HardJob", "arity"),
        ("SendInvoice", "not performed"),
        ("send_invoice", "arity"),
    ]
