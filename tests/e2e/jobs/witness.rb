# What the end-to-end run enqueues for Ruby, and a record of every job that was performed.
require "json"

class Record
  def call(_worker, job, _queue)
    yield
    entry = {
      by: "Ruby", class: job["class"], args: job["args"], jid: job["jid"],
      enqueued_at: job["enqueued_at"], at: Time.now.to_f
    }
    Sidekiq.redis { |connection| connection.rpush("e2e:performed", JSON.generate(entry)) }
  end
end

Sidekiq.configure_server do |config|
  config.options[:poll_interval_average] = 0.2
  config.server_middleware { |chain| chain.add Record }
end

module Billing
  class WitnessJob
    include Sidekiq::Worker

    def perform(_marker); end
  end

  # The one that the template's rule CloseDay enqueues.
  class CloseDayJob
    include Sidekiq::Worker

    def perform; end
  end
end
