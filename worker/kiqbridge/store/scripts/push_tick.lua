#!lua
-- Enqueue the jobs of one occurrence of a schedule, all or none, once, however many callers there are, unless
-- the schedule is paused or the occurrence is to be skipped.
-- The server's own clock decides what is too old, so that all callers agree.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- The ledger has no TTL: a server whose memory is full evicts what has one. An entry stays until its
-- instant is older than what the ledger remembers, however far ahead it was; the ledger of a schedule
-- that is no more is forgotten by forget_ledgers.lua.
-- KEYS 1 ledger of the schedule (sorted set), 2 schedules that have a ledger (sorted set: when its last entry is
--      over), 3 how often its occurrences were delivered (hash), 4 how their jobs ended (sorted set), 5 states of
--      schedules (hash), then those of parts/push_jobs.lua
-- ARGV 1 instant (epoch seconds), 2 seconds that the ledger remembers, 3 entry for the ledger,
--      4 name of the schedule, 5 seconds that the instant may lie ahead of the server's clock, '' = any,
--      6 entry without jobs ('' = enqueue also if the schedule is paused), then those of parts/push_jobs.lua, and, if
--      they have rules, for each job how it ended if its rule leaves it out
-- Returns {'enqueued'}, {'paused'}, {'skipped'}, {'duplicate', entry of the first time}, {'stale'}, or
-- {'future'}: an instant that is not due yet would make its true delivery a duplicate. Of {'enqueued'} what became of
-- each job follows. Or what refuses all of them (parts/push_jobs.lua), and nothing is pushed.
-- Repeated: {'duplicate', the same entry}, and nothing is pushed. A duplicate is counted each time, but that
-- of the same entry not at all.
-- See reliability §11, protocol §5.5.
-- include push_jobs
-- An hour: a failover to a server whose clock lags must not forget what it still asks for.
local MARGIN = 3600
local MOST_FORGOTTEN = 1000 -- more than a tick adds
local instant, horizon = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1])
if instant < now - horizon then
  return {'stale'}
end
if ARGV[5] ~= '' and instant > now + tonumber(ARGV[5]) then
  return {'future'}
end

-- Why this occurrence enqueues nothing, by the state of the schedule, or nil. A state that cannot be read
-- stops no tick.
local function left_out()
  local text = redis.call('HGET', KEYS[5], ARGV[4])
  local is_read, state = pcall(cjson.decode, text or '')
  if not is_read or type(state) ~= 'table' then
    return nil
  end
  if type(state.skipped) == 'table' then
    for _, each in ipairs(state.skipped) do
      if each == instant then
        return 'skipped'
      end
    end
  end
  if type(state.paused) == 'table' then
    local till = state.paused['until']
    if type(till) ~= 'number' or now + tonumber(time[2]) / 1000000 < till then
      return 'paused'
    end
  end
end

-- Forget entries of the ledger up to an instant, with what belongs to them.
local function trim_ledger(cutoff)
  local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', cutoff, 'WITHSCORES', 'LIMIT', 0, MOST_FORGOTTEN)
  if over[1] then
    local entries, instants = {}, {}
    for i = 1, #over, 2 do
      entries[#entries + 1], instants[#instants + 1] = over[i], over[i + 1]
    end
    -- pcall: with a foreign type there, the ledger works all the same
    redis.pcall('HDEL', KEYS[3], unpack(instants))
    redis.call('ZREM', KEYS[1], unpack(entries))
  end
  local ended = redis.pcall('ZRANGEBYSCORE', KEYS[4], '-inf', cutoff, 'LIMIT', 0, MOST_FORGOTTEN)
  if ended[1] then
    redis.call('ZREM', KEYS[4], unpack(ended))
  end
end

local known = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1], 'LIMIT', 0, 1)
if known[1] then
  local is_repeated = known[1] == ARGV[3] or ARGV[6] ~= '' and string.find(known[1], string.sub(ARGV[6], 1, -2), 1, true) == 1
  -- A count is no reason to answer anything else: where it has no place it is not kept.
  if not is_repeated and not wrong_type(KEYS[3], 'hash') and redis.call('HINCRBY', KEYS[3], ARGV[1], 1) == 1 then
    redis.call('HINCRBY', KEYS[3], ARGV[1], 1)
  end
  return {'duplicate', known[1]}
end
local refused = wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[5], 'hash')
local pushed = judge_jobs(5, 6, time)
if refused or pushed.refused and pushed.refused.err then
  return refused or pushed.refused
end
local outcome, entry, answers = 'enqueued', ARGV[3], {}
local reason = ARGV[6] ~= '' and left_out()
if reason then
  outcome, entry = reason, string.sub(ARGV[6], 1, -2) .. ',"' .. reason .. '":true}'
elseif pushed.refused then
  return pushed.refused
end
redis.call('ZADD', KEYS[2], 'GT', instant + horizon + MARGIN, ARGV[4])
if not reason then
  answers = pushed.write()
end
redis.call('ZADD', KEYS[1], ARGV[1], entry)
for i, answer in ipairs(answers) do
  if answer == '-' or string.sub(answer, 1, 1) == 'o' then
    redis.pcall('ZADD', KEYS[4], ARGV[1], ARGV[pushed.behind + i - 1])
  end
end
trim_ledger(now - horizon - MARGIN)
redis.call('PERSIST', KEYS[1]) -- one of an earlier version had a TTL
return {outcome, unpack(answers)}
