# Loaded before each script of run_ruby: Sidekiq's client and API on the test's server.
require "json"
require "sidekiq"
require "sidekiq/api"

$stdout.sync = true
Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }

GIVEN = JSON.parse(ENV.fetch("GIVEN"))

def answer(value)
  puts JSON.generate(value)
end
