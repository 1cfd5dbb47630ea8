# Reads all that is in Redis as a user of Sidekiq does: every page of its Web UI, the page of each job, and
# `each` of every set and queue. Answers what could not be read, by place, with the members to blame.
require "sidekiq/web"
require "rack"
require "rack/mock"

WEB = Rack::MockRequest.new(Rack::Builder.new { run Sidekiq::Web }.to_app)
SETS = {
  "retry" => ["/retries", Sidekiq::RetrySet],
  "schedule" => ["/scheduled", Sidekiq::ScheduledSet],
  "dead" => ["/morgue", Sidekiq::DeadSet]
}.freeze
ON_A_PAGE = 25

def problem
  yield
  nil
rescue StandardError, SystemStackError => error
  "#{error.class}: #{error.message[0, 200]}"
end

def see(path)
  problem do
    answer = WEB.get(path, "rack.session" => { csrf: "x" * 44, "csrf" => "x" * 44 })
    raise "status #{answer.status} of #{path}" unless answer.status == 200
  end
end

def read(jobs)
  problem do
    jobs.each do |job|
      [job.jid, job.klass, job.queue, job.args, job.display_class, job.display_args, job.created_at,
       job.enqueued_at, job.tags, job.error_backtrace, job.latency]
    end
  end
end

def pages(path, count)
  (1..[count.fdiv(ON_A_PAGE).ceil, 1].max).map { |page| see("#{path}?page=#{page}") }
end

def own_page(path, score, member)
  jid = JSON.parse(member)["jid"]
  see("#{path}/#{score}-#{Rack::Utils.escape_path(jid.to_s)}")
end

def crawl_set(redis, key, path, kind)
  members = redis.zrange(key, 0, -1, with_scores: true)
  found = [*pages(path, members.size), read(kind.new)]
  found += members.map { |member, score| problem { own_page(path, score, member)&.then { |said| raise said } } }
  return [] if found.none?

  redis.del(key)
  blamed = members.filter_map do |member, score|
    redis.zadd(key, score, member)
    said = see(path) || read(kind.new) || problem { own_page(path, score, member)&.then { |text| raise text } }
    redis.zrem(key, member)
    [member[0, 2000], said] if said
  end
  blamed.empty? ? [["all together", found.compact.first]] : blamed
end

def crawl_queue(redis, name)
  path = "/queues/#{Rack::Utils.escape_path(name)}"
  key = "queue:#{name}"
  members = redis.lrange(key, 0, -1)
  found = [*pages(path, members.size), read(Sidekiq::Queue.new(name))]
  return [] if found.none?

  redis.del(key)
  blamed = members.filter_map do |member|
    redis.rpush(key, member)
    said = see(path) || read(Sidekiq::Queue.new(name))
    redis.del(key)
    [member[0, 2000], said] if said
  end
  blamed.empty? ? [["all together", found.compact.first]] : blamed
end

found = {}
Sidekiq.redis do |redis|
  %w[/ /busy /queues /stats].each { |path| found[path] = [["all together", see(path)]].select(&:last) }
  found["Workers#each"] = [["all together", problem { Sidekiq::Workers.new.each { |*row| row.to_s } }]].select(&:last)
  SETS.each { |key, (path, kind)| found[key] = crawl_set(redis, key, path, kind) }
  redis.smembers("queues").each { |name| found["queue #{name}"] = crawl_queue(redis, name) }
end
answer(found.reject { |_, said| said.empty? })
