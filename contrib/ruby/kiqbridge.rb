# frozen_string_literal: true

# Unique jobs, throttles and pauses of Kiqbridge for a Ruby application: one file, which needs nothing but sidekiq.
# Tested with Sidekiq 6.4; docs/rails.md says what it rests on with 7 and 8.
#
#   # config/initializers/sidekiq.rb
#   require_relative "../../lib/kiqbridge"
#   Kiqbridge.install
#
#   class Bill
#     include Sidekiq::Worker
#     sidekiq_options kiqbridge: { unique: { until: "done" } }
#   end
#
# `kiqbridge` takes one of
#
#   unique:   until ("done" or "start"), by (places of the arguments that count; all by default), on_conflict ("drop",
#             "replace" or "raise"), ttl (seconds, 30 days)
#   throttle: limit (1), per (seconds), by, over ("drop" or "later")
#
# with the meaning that docs/flow.md gives them. A lock is the same for Ruby and Python: whoever pushes first has it,
# and whoever performs the job frees it. A push that is left out returns nil, as one that a middleware stops.
# An Active Job may have these options, too: `by` counts the arguments of its own `perform`.
#
# Kiqbridge::Schedules.list, .pause(name), .resume(name) and .run(name) are for the schedules in Redis. For the tab
# "Schedules" of Sidekiq's Web UI, behind `require "sidekiq/web"`:
#
#   Kiqbridge::Tab.register

require "cgi"
require "digest"
require "etc"
require "json"
require "sidekiq"

module Kiqbridge
  # A job that is to raise when another one has its lock.
  class NotUnique < StandardError; end

  LOOK_S = 600
  PUT_OFF_S = 60
  MONTH_S = 30 * 86_400

  class << self
    # What KIQBRIDGE_NAMESPACE is for Python, or redis-namespace for Sidekiq 6.
    attr_accessor :namespace

    # Add the middleware, to a server's client as well, and free the locks of jobs that die.
    def install(namespace: nil)
      self.namespace = namespace
      Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add ClientMiddleware } }
      Sidekiq.configure_server do |config|
        config.client_middleware { |chain| chain.add ClientMiddleware }
        config.server_middleware { |chain| chain.add ServerMiddleware }
        config.death_handlers << ->(job, _error) { Locks.free(job) }
      end
    end

    def key(name)
      namespace ? "#{namespace}:#{name}" : name
    end

    def script(text, keys, *args)
      names = keys.map { |each| key(each) }
      Sidekiq.redis { |redis| redis.call("EVAL", text, names.size, *names, *args.map(&:to_s)) }
    end

    # The name for jobs of a class with the same chosen arguments, as Python makes it.
    def name_of(job, rule)
      wrapped = job["args"].first if job["wrapped"]
      args = wrapped.is_a?(Hash) ? wrapped["arguments"] : job["args"]
      by = rule["by"]
      chosen = by ? by.map { |place| args[place] } : args
      "#{job["wrapped"] || job["class"]}:#{Digest::SHA256.hexdigest(JSON.generate(sorted(chosen)))[0, 32]}"
    end

    private

    def sorted(value)
      case value
      when Hash then value.map { |key, each| [key.to_s, sorted(each)] }.sort_by(&:first).to_h
      when Array then value.map { |each| sorted(each) }
      else value
      end
    end
  end

  # The locks of unique jobs, which the attribute `flow` of a payload names.
  module Locks
    KEYS = %w[kb:locks kb:locks:look kb:replaced].freeze

    OWNER = <<~LUA
      local now = tonumber(redis.call('TIME')[1])
      local till, owner = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (.*)$')
      if not till or tonumber(till) <= now then
        owner = nil
      end
      local function take(seconds, from)
        redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
        local ends = math.ceil(math.max(now, tonumber(from) or now) + seconds)
        redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s', ends, ARGV[2]))
      end
      local function free()
        redis.call('HDEL', KEYS[1], ARGV[1])
        redis.call('ZREM', KEYS[2], ARGV[1])
      end
    LUA

    # ARGV: name, jid, seconds until it is looked at, seconds that it counts, what if another has it, when the job runs
    TAKE = <<~LUA
      #{OWNER}
      if owner and owner ~= ARGV[2] then
        if ARGV[5] ~= 'replace' then
          return owner
        end
        redis.call('ZADD', KEYS[3], till, owner)
      end
      take(ARGV[4], ARGV[6])
      return ''
    LUA

    # ARGV: name, jid, seconds until it is looked at, when it is freed, seconds for which it is taken now
    BEGIN_JOB = <<~LUA
      #{OWNER}
      if redis.call('ZSCORE', KEYS[3], ARGV[2]) then
        return 'replaced'
      end
      if ARGV[5] ~= '' and owner and owner ~= ARGV[2] then
        return owner
      end
      if ARGV[4] == 'start' then
        if owner == ARGV[2] then
          free()
        end
      elseif ARGV[5] ~= '' and not owner then
        take(ARGV[5])
      end
      return ''
    LUA

    FREE = <<~LUA
      #{OWNER}
      redis.call('ZREM', KEYS[3], ARGV[2])
      if owner == ARGV[2] then
        free()
      end
      return ''
    LUA

    module_function

    # The jid that has the lock; nil: this job has it now.
    def take(job, rule)
      name = Kiqbridge.name_of(job, rule)
      ttl = rule.fetch("ttl", MONTH_S)
      owner = Kiqbridge.script(TAKE, KEYS, name, job["jid"], LOOK_S, ttl, rule.fetch("on_conflict", "drop"), job["at"])
      return owner unless owner.empty?

      job["flow"] = (job["flow"] || {}).merge("lock" => name, "until" => rule.fetch("until", "done"))
      nil
    end

    # Why the job does not begin: "replaced", or the jid that has its lock; nil: it begins.
    def hindrance(job)
      flow = of(job) or return
      found = Kiqbridge.script(BEGIN_JOB, KEYS, flow["lock"], job["jid"], LOOK_S, flow["until"], flow["take"])
      found unless found.empty?
    end

    def free(job)
      flow = of(job)
      Kiqbridge.script(FREE, KEYS, flow["lock"], job["jid"], LOOK_S) if flow
    end

    def of(job)
      flow = job["flow"]
      flow if flow.is_a?(Hash) && flow["lock"].is_a?(String) && %w[start done].include?(flow["until"])
    end
  end

  # At most so many jobs in each span of time, counted together with Python.
  module Throttles
    KEYS = %w[kb:flow:spans kb:flow:spans:until].freeze

    # ARGV: name, limit, seconds of a span, drop or later, when the job runs ('' = now). Answers '' = now, '-' = not, or when.
    COUNT = <<~LUA
      local time = redis.call('TIME')
      local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
      local limit, length = tonumber(ARGV[2]), tonumber(ARGV[3])
      local span = math.floor(math.max(now, tonumber(ARGV[5]) or now) / length)
      local number, count = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%d+)$')
      number, count = tonumber(number), tonumber(count)
      if not number or number < span then
        number, count = span, 0
      end
      if count >= limit then
        number, count = number + 1, 0
      end
      if number > span and ARGV[4] == 'drop' then
        return '-'
      end
      redis.call('ZADD', KEYS[2], math.ceil((number + 1) * length), ARGV[1])
      redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %d', number, count + 1))
      for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 10)) do
        redis.call('ZREM', KEYS[2], name)
        redis.call('HDEL', KEYS[1], name)
      end
      return number > span and string.format('%.6f', number * length) or ''
    LUA

    module_function

    # Whether the job is pushed; one that is put off gets its time.
    def admit?(job, rule)
      name = Kiqbridge.name_of(job, rule)
      over = rule.fetch("over", "drop")
      answer = Kiqbridge.script(COUNT, KEYS, name, rule.fetch("limit", 1), rule.fetch("per"), over, job["at"])
      job["at"] = answer.to_f unless ["", "-"].include?(answer)
      answer != "-"
    end
  end

  # Takes locks and counts spans for the classes that ask for it.
  class ClientMiddleware
    include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

    def call(_worker, job, _queue, _redis_pool)
      rules = job.delete("kiqbridge")
      return yield unless rules.is_a?(Hash)

      rules = JSON.parse(JSON.generate(rules))
      return false if rules["throttle"] && !Throttles.admit?(job, rules["throttle"])
      return yield unless rules["unique"]

      owner = Locks.take(job, rules["unique"])
      if owner
        raise NotUnique, "#{job["class"]}: #{owner} has its lock" if rules["unique"]["on_conflict"] == "raise"

        return false
      end
      push_or_free(job) { yield }
    end

    private

    # Where the reply was lost the job may be enqueued: then it keeps its lock.
    def push_or_free(job)
      pushed = yield
      Locks.free(job) unless pushed
      pushed
    rescue StandardError => error
      Locks.free(job) unless error.class.name.match?(/Connection|Timeout/)
      raise
    end
  end

  # Frees locks, leaves out jobs that were replaced, and puts off those whose class or queue is paused.
  class ServerMiddleware
    include Sidekiq::ServerMiddleware if defined?(Sidekiq::ServerMiddleware)

    def call(_worker, job, queue)
      return put_off(job) if paused?(job, queue)

      hindrance = Locks.hindrance(job)
      if hindrance
        Sidekiq.logger.info("left out: #{hindrance == "replaced" ? "another job took its place" : "#{hindrance} has its lock"}")
        return
      end
      yield
      Locks.free(job)
    end

    private

    def paused?(job, queue)
      names = ["class:#{job["wrapped"] || job["class"]}", "queue:#{queue}"]
      texts = Sidekiq.redis { |redis| redis.call("HMGET", Kiqbridge.key("kb:paused"), *names) }
      texts.compact.any? do |text|
        ends = JSON.parse(text)["until"]
        ends.nil? || ends > Time.now.to_f
      rescue JSON::ParserError
        false
      end
    end

    # Untouched, and looked at again when it is due.
    def put_off(job)
      at = Time.now.to_f + PUT_OFF_S
      Sidekiq.redis { |redis| redis.call("ZADD", Kiqbridge.key("schedule"), at.to_s, JSON.generate(job)) }
    end
  end

  # The schedules in Redis: those of template.yaml, and dynamic ones. A worker of Python that leads its fleet carries
  # changes out, within seconds.
  module Schedules
    Schedule = Struct.new(:name, :expression, :timezone, :classes, :origin, :paused, :next_at, :ticks, keyword_init: true)
    Tick = Struct.new(:at, :jids, :by, keyword_init: true)

    class NotTaken < StandardError; end

    TICKS = 20
    WAIT_S = 10

    module_function

    # All of them by name, with the last 20 ticks of each, the newest first.
    def list
      definitions, states, coming = %w[kb:schedules kb:schedules:state kb:schedules:next].map { |name| hash(name) }
      definitions.sort.map do |name, text|
        known = parsed(text)
        Schedule.new(
          name: name, expression: known["expression"], timezone: known["timezone"], origin: known["origin"],
          classes: Array(known["jobs"]).map { |job| job["class"] || job["active_job"] },
          paused: paused(parsed(states[name])["paused"]), next_at: coming[name] && Time.at(coming[name].to_i).utc, ticks: ticks(name)
        )
      end
    end

    def pause(name, reason: "", wait: WAIT_S)
      ask("pause", name, wait, reason: reason)
    end

    def resume(name, wait: WAIT_S)
      ask("resume", name, wait)
    end

    def run(name, wait: WAIT_S)
      ask("run", name, wait)
    end

    # Waits until a worker has taken it; 0: does not wait.
    def ask(verb, name, wait, **more)
      request = JSON.generate({ do: verb, name: name, by: Etc.getlogin.to_s, id: rand(1 << 48).to_s(16), **more })
      list = Kiqbridge.key("kb:schedules:requests")
      Sidekiq.redis { |redis| redis.call("LPUSH", list, request) }
      until_at = Process.clock_gettime(Process::CLOCK_MONOTONIC) + wait
      while wait.positive? && Sidekiq.redis { |redis| redis.call("LRANGE", list, 0, -1) }.include?(request)
        if Process.clock_gettime(Process::CLOCK_MONOTONIC) > until_at
          Sidekiq.redis { |redis| redis.call("LREM", list, 1, request) }
          raise NotTaken, "#{verb} of #{name}: no worker of Kiqbridge has taken it within #{wait} s; is one running?"
        end
        sleep 0.05
      end
      true
    end

    def hash(name)
      found = Sidekiq.redis { |redis| redis.call("HGETALL", Kiqbridge.key(name)) }
      found.is_a?(Hash) ? found : found.each_slice(2).to_h
    end

    def parsed(text)
      found = text ? JSON.parse(text) : {}
      found.is_a?(Hash) ? found : {}
    rescue JSON::ParserError
      {}
    end

    def paused(state)
      state if state.is_a?(Hash) && (state["until"].nil? || state["until"] > Time.now.to_f)
    end

    def ticks(name)
      texts = Sidekiq.redis { |redis| redis.call("ZREVRANGE", Kiqbridge.key("kb:ticks:#{name}"), 0, TICKS - 1) }
      texts.map do |text|
        entry = parsed(text)
        Tick.new(at: Time.at(entry["at"].to_i).utc, jids: Array(entry["jids"]), by: entry["by"].to_s)
      end
    end
  end

  # The tab "Schedules" of Sidekiq's Web UI.
  module Tab
    PATH = "kiqbridge-schedules"

    # `configure` is there from 7.3.7 on (sidekiq/sidekiq#6532); what is before takes a module and an entry of `tabs`
    # (#6292).
    def self.register
      if Sidekiq::Web.respond_to?(:configure)
        Sidekiq::Web.configure { |config| config.register(Tab, name: "kiqbridge", tab: ["Schedules"], index: [PATH]) }
      else
        Sidekiq::Web.register(Tab)
        Sidekiq::Web.tabs["Schedules"] = PATH
      end
    end

    def self.registered(app)
      app.get("/#{PATH}") { erb(Tab.page(root_path, csrf_tag)) }
      app.post("/#{PATH}") do
        # Newer versions read a form's fields by another method.
        field = ->(name) { respond_to?(:url_params) ? url_params(name) : params[name] }
        verb = %w[pause resume run].find(&field)
        Schedules.public_send(verb, field.call("name"), wait: 2) if verb
        redirect "#{root_path}#{PATH}"
      end
    end

    def self.page(root, csrf)
      rows = Schedules.list.map { |each| row(each, root, csrf) }.join
      <<~HTML
        <header class="row"><div class="col-sm-12"><h3>Schedules</h3></div></header>
        <div class="table_container"><table class="table table-bordered table-striped table-white">
        <thead><tr><th>Schedule</th><th>When</th><th>Next (UTC)</th><th>Last #{Schedules::TICKS} ticks, newest left</th><th></th></tr></thead>
        <tbody>#{rows}</tbody></table></div>
      HTML
    end

    def self.row(each, root, csrf)
      buttons = [each.paused ? "resume" : "pause", "run"].map { |verb| button(verb) }.join
      reason = each.paused && " (paused#{": #{each.paused["reason"]}" unless each.paused["reason"].to_s.empty?})"
      ticks = each.ticks.map { |tick| %(<span title="#{h("#{moment(tick.at)} by #{tick.by}")}">#{tick.jids.empty? ? "&#9675;" : "&#9679;"}</span>) }
      <<~HTML
        <tr><td>#{h(each.name)}#{h(reason)}<br><small>#{h(each.classes.join(", "))}</small></td>
        <td><code>#{h(each.expression)}</code> #{h(each.timezone)}</td>
        <td>#{h(each.next_at && !each.paused && moment(each.next_at))}</td><td>#{ticks.join}</td>
        <td><form action="#{h(root)}#{PATH}" method="post">#{csrf}
        <input type="hidden" name="name" value="#{h(each.name)}">#{buttons}</form></td></tr>
      HTML
    end

    def self.button(verb)
      %(<button class="btn btn-warn btn-xs" name="#{verb}" value="1">#{verb.capitalize}</button> )
    end

    def self.moment(time)
      time.strftime("%Y-%m-%d %H:%M:%S")
    end

    # The page is ERB to Sidekiq: no text may begin a tag of it.
    def self.h(text)
      CGI.escapeHTML((text || "").to_s).gsub("%", "&#37;")
    end
  end
end
