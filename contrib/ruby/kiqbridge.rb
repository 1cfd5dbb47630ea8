# frozen_string_literal: true

# Unique jobs, throttles and pauses of Kiqbridge for a Ruby application: one file, which needs nothing but sidekiq.
# Tested with Sidekiq 6.4 and 7.3; contrib/ruby/README.md names each interface that it uses, and says what is known of 8.
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
# with the meaning that docs/how_to/flow.md gives them. A lock is the same for Ruby and Python: whoever pushes first has it,
# and whoever performs the job frees it. A push that is left out returns nil, as one that a middleware stops. What is
# not pushed to Redis takes no lock and is not counted: `perform_inline`, and all in the modes of Sidekiq::Testing.
# An Active Job may have these options, too: `by` counts the arguments of its own `perform`. The retry that `retry_on`
# enqueues gets the lock of the job that enqueues it, and no throttle counts it.
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

    # Add the middleware, to a server's client as well, and free the locks of jobs that die or are discarded.
    def install(namespace: nil)
      self.namespace = namespace
      Sidekiq::Client.prepend(Pushes)
      Class.new { include Sidekiq::Job }.method(:sidekiq_retry_in).owner.prepend(Discards)
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

    # On the server of `pool`, or on that of this process.
    def script(text, keys, *args, pool: nil)
      names = keys.map { |each| key(each) }
      run = ->(redis) { redis.call("EVAL", text, names.size, *names, *args.map(&:to_s)) }
      pool ? pool.with(&run) : Sidekiq.redis(&run)
    end

    # The name for jobs of a class with the same chosen arguments, as Python makes it.
    def name_of(job, rule)
      wrapped = job["args"].first if job["wrapped"]
      args = wrapped.is_a?(Hash) ? wrapped["arguments"] : job["args"]
      by = rule["by"]
      chosen = by ? by.map { |place| args[place] } : args
      "#{job["wrapped"] || job["class"]}:#{Digest::SHA256.hexdigest(text(chosen))[0, 32]}"
    end

    private

    # JSON with sorted keys, and floats as Python writes them: without an exponent from 0.0001 to below 1e16.
    def text(value)
      case value
      when Hash
        members = value.map { |key, each| [key.to_s, each] }.sort_by(&:first)
        "{#{members.map { |key, each| "#{JSON.generate(key)}:#{text(each)}" }.join(",")}}"
      when Array then "[#{value.map { |each| text(each) }.join(",")}]"
      when Float then number(value)
      else JSON.generate(value)
      end
    end

    def number(value)
      value.to_s.sub(/(\d)\.(\d+)e\+15\z/) { "#{$1}#{$2}".ljust(17, "0").insert(16, ".") }.sub(".0e", "e")
    end
  end

  # The locks of unique jobs, which the attribute `flow` of a payload names.
  module Locks
    KEYS = %w[kb:locks kb:locks:look kb:replaced].freeze
    PENDING_S = 10

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

    # A lock is pending, for seconds, until its job has been pushed: a push that fails or is killed leaves nothing for
    # long. The time to look at such a lock is no whole number.
    #
    # ARGV: name, jid, seconds until it is looked at, seconds that it is pending, what if another has it ("take": even
    # if it is pending), the running job whose own retry this is ('' = it is none). Answers "taken", "beside" (pushed
    # without the lock), "owned" or "pending", then who had it, and until when.
    TAKE = <<~LUA
      #{OWNER}
      if ARGV[6] ~= '' and redis.call('ZSCORE', KEYS[3], ARGV[6]) then
        return {'owned', owner or ''}
      end
      if owner and owner ~= ARGV[2] and owner ~= ARGV[6] then
        if ARGV[6] ~= '' then
          return {'beside', owner}
        end
        local is_pending = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) % 1 > 0
        if is_pending and ARGV[5] ~= 'take' then
          return {'pending', owner}
        elseif not is_pending and ARGV[5] ~= 'replace' then
          return {'owned', owner}
        end
      end
      local ends = now + 1 + ARGV[4]
      redis.call('ZADD', KEYS[2], ends + 0.5, ARGV[1])
      redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s', ends, ARGV[2]))
      return {'taken', owner or '', owner and till or ''}
    LUA

    # What ends or undoes something does so with memory full as well.

    # The job was pushed. ARGV: name, jid, seconds until it is looked at, seconds that it counts, when the job runs, the
    # job that it replaces ('' = none), until when that one had the lock
    KEEP = <<~LUA
      #!lua flags=allow-oom
      #{OWNER}
      if owner == ARGV[2] then
        take(ARGV[4], ARGV[5])
      end
      if ARGV[6] ~= '' then
        redis.call('ZADD', KEYS[3], math.max(ARGV[7], now + ARGV[4]), ARGV[6])
      end
      return ''
    LUA

    # It was not. ARGV: name, jid, seconds until it is looked at, the running job that gets the lock back ('' = none),
    # until when that one had it
    DROP = <<~LUA
      #!lua flags=allow-oom
      #{OWNER}
      if owner == ARGV[2] then
        free()
        if ARGV[4] ~= '' then
          redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
          redis.call('HSET', KEYS[1], ARGV[1], ARGV[5] .. ' ' .. ARGV[4])
        end
      end
      return ''
    LUA

    # ARGV: name, jid, seconds until it is looked at, when it is freed, seconds for which it is taken now
    BEGIN_JOB = <<~LUA
      #!lua flags=allow-oom
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
      #!lua flags=allow-oom
      #{OWNER}
      redis.call('ZREM', KEYS[3], ARGV[2])
      if owner == ARGV[2] then
        free()
      end
      return ''
    LUA

    module_function

    # The jid that has the lock; nil: the job is pushed. `running` is the job whose own retry it is.
    def take(job, rule, pool, running)
      name, jid, at = Kiqbridge.name_of(job, rule), job["jid"], job["at"]
      found, owner, till = ask(name, jid, rule.fetch("on_conflict", "drop"), pool, running)
      return owner if %w[owned pending].include?(found)

      job["flow"] = (job["flow"] || {}).merge("lock" => name, "until" => rule.fetch("until", "done"))
      return unless found == "taken"

      former = owner unless owner.empty? || owner == jid
      Pushes.took(jid, lambda do |is_pushed|
        if is_pushed
          ttl = rule.fetch("ttl", MONTH_S)
          Kiqbridge.script(KEEP, KEYS, name, jid, LOOK_S, ttl, at, running ? "" : former, till, pool: pool)
        else
          Kiqbridge.script(DROP, KEYS, name, jid, LOOK_S, running && former, till, pool: pool)
        end
      end)
      nil
    end

    # What TAKE answers, once another push has ended whose lock is pending; that of the same thread cannot end before.
    def ask(name, jid, conflict, pool, running)
      last = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PENDING_S + 2
      loop do
        answer = Kiqbridge.script(TAKE, KEYS, name, jid, LOOK_S, PENDING_S, conflict, running && running["jid"], pool: pool)
        return answer if answer[0] != "pending" || Process.clock_gettime(Process::CLOCK_MONOTONIC) > last

        if !Pushes.jid?(answer[1])
          sleep 0.05
        elsif conflict == "replace"
          conflict = "take"
        else
          return answer
        end
      end
    end

    # Why the job does not begin: "replaced", or the jid that has its lock; nil: it begins.
    def hindrance(job)
      flow = of(job) or return
      found = Kiqbridge.script(BEGIN_JOB, KEYS, flow["lock"], job["jid"], LOOK_S, flow["until"], flow["take"])
      found unless found.empty?
    end

    # The job has ended: it is not charged with what Redis cannot do.
    def free(job)
      flow = of(job)
      Kiqbridge.script(FREE, KEYS, flow["lock"], job["jid"], LOOK_S) if flow
    rescue StandardError => error
      Sidekiq.logger.warn("the lock #{flow["lock"]} of job #{job["jid"]} was not freed: #{error.class}: #{error.message}; " \
                          "a Python worker frees it within some minutes, once it finds no such job")
    end

    def of(job)
      flow = job["flow"]
      flow if flow.is_a?(Hash) && flow["lock"].is_a?(String) && %w[start done].include?(flow["until"])
    end
  end

  # At most so many jobs in each span of time, counted together with Python.
  module Throttles
    KEYS = %w[kb:flow:spans kb:flow:spans:until].freeze

    # ARGV: name, limit, seconds of a span, drop or later, when the job runs ('' = now). Answers '' = now, '-' = not, or
    # when, and the number of the span.
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
        return {'-'}
      end
      redis.call('ZADD', KEYS[2], math.ceil((number + 1) * length), ARGV[1])
      redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %d', number, count + 1))
      for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 10)) do
        redis.call('ZREM', KEYS[2], name)
        redis.call('HDEL', KEYS[1], name)
      end
      return {number > span and string.format('%.6f', number * length) or '', string.format('%d', number)}
    LUA

    # The job was not pushed. ARGV: name, number of the span in which it was counted
    UNCOUNT = <<~LUA
      #!lua flags=allow-oom
      local number, count = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (%d+)$')
      if number == ARGV[2] then
        redis.call('HSET', KEYS[1], ARGV[1], string.format('%s %d', number, math.max(0, count - 1)))
      end
      return ''
    LUA

    module_function

    # Whether the job is pushed; one that is put off gets its time.
    def admit?(job, rule, pool)
      name = Kiqbridge.name_of(job, rule)
      over = rule.fetch("over", "drop")
      answer, number = Kiqbridge.script(COUNT, KEYS, name, rule.fetch("limit", 1), rule.fetch("per"), over, job["at"], pool: pool)
      return false if answer == "-"

      job["at"] = answer.to_f unless answer.empty?
      Pushes.took(job["jid"], ->(is_pushed) { Kiqbridge.script(UNCOUNT, KEYS, name, number, pool: pool) unless is_pushed })
      true
    end
  end

  # Around Sidekiq::Client's `push` and `push_bulk`: client middleware ends before the job is written, and only here is
  # it known whether it was.
  module Pushes
    PENDING = :kiqbridge_pushes
    MOST = 1_000

    def push(item)
      Pushes.around { super }
    end

    # In parts, of which each is pushed as a whole or not at all.
    def push_bulk(items)
      args = items["args"] if items.is_a?(Hash)
      return Pushes.around { super } unless args.is_a?(Array) && args.size > MOST

      args.each_slice(MOST).each_with_index.flat_map do |slice, index|
        part = items.merge("args" => slice)
        part["at"] = items["at"][index * MOST, MOST] if items["at"].is_a?(Array)
        push_bulk(part)
      end
    end

    class << self
      # Whether a push of this thread goes on, to Redis.
      def any?
        !(defined?(Sidekiq::Testing) && Sidekiq::Testing.enabled?) && !open.empty?
      end

      # Whether a job of one has that jid.
      def jid?(jid)
        open.any? { |taken| taken.any? { |each, _| each == jid } }
      end

      # What was done for a job is settled once it is known whether it was pushed.
      def took(jid, settle)
        open.last << [jid, settle]
      end

      def around
        open.push(taken = [])
        pushed = yield
      ensure
        open.pop
        settle(taken, Array(pushed))
      end

      private

      def open
        Thread.current[PENDING] ||= []
      end

      def settle(taken, pushed)
        pushed = pushed.to_h { |jid| [jid, true] }
        taken.each { |jid, settle| settle.call(pushed.key?(jid)) }
      rescue StandardError => error
        Sidekiq.logger.warn("#{taken.size} jobs: a lock was neither kept nor given back: #{error.class}: #{error.message}; " \
                            "it is free in #{Locks::PENDING_S} s")
      end
    end
  end

  # Around the blocks of a class that decide what becomes of a failed job. Before Sidekiq 8.0.7 no death handler runs for
  # one that they discard.
  module Discards
    def sidekiq_retry_in(&block)
      block ? super(&Discards.freeing(block)) : super
    end

    def sidekiq_retries_exhausted(&block)
      block ? super(&Discards.freeing(block)) : super
    end

    def self.freeing(block)
      proc do |*args|
        found = block.call(*args)
        job = args.find { |each| each.is_a?(Hash) }
        Locks.free(job) if found == :discard && job
        found
      end
    end
  end

  # Takes locks and counts spans for the classes that ask for it.
  class ClientMiddleware
    include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

    def call(_worker, job, _queue, redis_pool)
      rules = job.delete("kiqbridge")
      return yield unless rules.is_a?(Hash) && Pushes.any?

      rules = JSON.parse(JSON.generate(rules))
      running = ServerMiddleware.retried_by(job)
      return false if rules["throttle"] && !running && !Throttles.admit?(job, rules["throttle"], redis_pool)
      return yield unless rules["unique"]

      owner = Locks.take(job, rules["unique"], redis_pool, running)
      return yield unless owner
      raise NotUnique, "#{job["class"]}: #{owner} has its lock" if rules["unique"]["on_conflict"] == "raise" && !running

      false
    end
  end

  # Frees locks, leaves out jobs that were replaced, and puts off those whose class or queue is paused.
  class ServerMiddleware
    include Sidekiq::ServerMiddleware if defined?(Sidekiq::ServerMiddleware)

    RUNNING = :kiqbridge_running

    def call(_worker, job, queue)
      return put_off(job) if paused?(job, queue)

      hindrance = Locks.hindrance(job)
      if hindrance
        Sidekiq.logger.info("left out: #{hindrance == "replaced" ? "another job took its place" : "#{hindrance} has its lock"}")
        return
      end
      perform(job) { yield }
      Locks.free(job)
    end

    # The running job, if `job` is the same Active Job: it enqueues itself anew (`retry_on`), under another jid.
    def self.retried_by(job)
      running = Thread.current[RUNNING] or return
      ids = [running, job].map { |each| each["wrapped"] && each["args"].first.is_a?(Hash) && each["args"].first["job_id"] }
      running if ids[0] && ids[0] == ids[1]
    end

    private

    def perform(job)
      before = Thread.current[RUNNING]
      Thread.current[RUNNING] = job
      yield
    ensure
      Thread.current[RUNNING] = before
    end

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
      rescue Schedules::NotTaken => error
        erb(Tab.page(root_path, csrf_tag, error.message))
      end
    end

    def self.page(root, csrf, error = nil)
      rows = Schedules.list.map { |each| row(each, root, csrf) }.join
      <<~HTML
        #{%(<div class="alert alert-danger" role="alert">#{h(error)}</div>) if error}
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
