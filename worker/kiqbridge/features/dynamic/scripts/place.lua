#!lua
-- Place occurrences of dynamic schedules in `schedule`, each once, claimed in the ledger of its schedule. A
-- schedule that was changed since it was read is left out; so is an occurrence that the ledger knows.
-- No allow-oom: with memory full nothing is placed, and the cursor stays.
-- KEYS 1 definitions (hash), 2 states (hash), 3 cursors (hash), 4 scheduled jobs (sorted set), 5 schedules that
--      have a ledger (sorted set: when its last entry is over), 6 missed ticks (sorted set), then for each
--      schedule: 7 its ledger (sorted set), 8 its jobs placed ahead (sorted set), 9 how often its occurrences were
--      delivered (hash), 10 how their jobs ended (sorted set)
-- ARGV 1 now (epoch seconds), 2 seconds that a ledger remembers, 3 entries that are kept of what is past, then for
--      each schedule: name, SHA-1 of its definition, SHA-1 of its state ('' = it has none; '*' = any), cursor as
--      it was read ('' = none, '*' = any: a run by hand, which nothing withdraws), cursor to write ('' = leave it), number of missed instants, these,
--      number of occurrences, and for each: instant, entry for the ledger, number of its jobs, for each job its
--      score and text
-- Returns for each schedule the number of occurrences placed, -1: it was changed meanwhile, or -2: a key of it
-- holds another type.
-- Repeated: -1 for each schedule whose cursor was written; nothing is placed twice.
-- See docs/explanation/schedules.md, reliability §11.
-- include wrong_type
local MARGIN = 3600
local now, horizon, kept = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'hash') or wrong_type(KEYS[3], 'hash')
  or wrong_type(KEYS[4], 'zset') or wrong_type(KEYS[5], 'zset') or wrong_type(KEYS[6], 'zset')
if refused then
  return refused
end
local next = 4
local function take()
  next = next + 1
  return ARGV[next - 1]
end

local function is_as_read(key, name, digest)
  if digest == '*' then
    return true
  end
  local text = redis.call('HGET', key, name)
  return (text and redis.sha1hex(text) or '') == digest
end

-- Forget jobs placed ahead that have left `schedule`, and all but the newest entries of the ledger, with what is
-- kept of them. The cursor says what is decided: the ledger of a dynamic schedule is needed for display only.
local function trim(ledger, placed, attempts, ends)
  local past = redis.call('ZRANGEBYSCORE', placed, '-inf', now, 'LIMIT', 0, 1000)
  for _, text in ipairs(past) do
    if not redis.call('ZSCORE', KEYS[4], text) then
      redis.call('ZREM', placed, text)
    end
  end
  local over = redis.call('ZCOUNT', ledger, '-inf', now - 600) - kept
  if over > 0 then
    local entries = redis.call('ZRANGE', ledger, 0, math.min(over, 1000) - 1, 'WITHSCORES')
    for i = 2, #entries, 2 do
      redis.call('HDEL', attempts, entries[i])
    end
    redis.call('ZREMRANGEBYSCORE', ends, '-inf', entries[#entries])
    redis.call('ZREMRANGEBYRANK', ledger, 0, #entries / 2 - 1)
  end
end

local function place_one(name, ledger, placed, is_ahead)
  local instant, entry = take(), take()
  local known = redis.call('ZRANGEBYSCORE', ledger, instant, instant, 'LIMIT', 0, 1)[1]
  for _ = 1, tonumber(take()) do
    local score, text = take(), take()
    if not known then
      redis.call('ZADD', KEYS[4], score, text)
      if is_ahead then
        redis.call('ZADD', placed, instant, text)
      end
    end
  end
  if not known then
    redis.call('ZADD', ledger, instant, entry)
    redis.call('ZADD', KEYS[5], 'GT', tonumber(instant) + horizon + MARGIN, name)
  end
  return (not known or known == entry) and 1 or 0
end

local function leave_out(count)
  next = next + count
end
local function skip_schedule()
  leave_out(tonumber(take()))
  for _ = 1, tonumber(take()) do
    leave_out(2)
    leave_out(2 * tonumber(take()))
  end
end

local results = {}
for first = 7, #KEYS, 4 do
  local name, definition, state, cursor, new = take(), take(), take(), take(), take()
  local ledger, placed, attempts, ends = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local result = 0
  if not is_as_read(KEYS[1], name, definition) or not is_as_read(KEYS[2], name, state)
    or (cursor ~= '*' and (redis.call('HGET', KEYS[3], name) or '') ~= cursor) then
    result = -1
  elseif wrong_type(ledger, 'zset') or wrong_type(placed, 'zset') or wrong_type(attempts, 'hash')
    or wrong_type(ends, 'zset') then
    result = -2
  end
  if result < 0 then
    skip_schedule()
  else
    for _ = 1, tonumber(take()) do
      local instant = take()
      redis.call('ZADD', KEYS[6], instant, instant .. ' ' .. name)
    end
    for _ = 1, tonumber(take()) do
      result = result + place_one(name, ledger, placed, cursor ~= '*')
    end
    if new ~= '' then
      redis.call('HSET', KEYS[3], name, new)
    end
    trim(ledger, placed, attempts, ends)
  end
  results[#results + 1] = result
end
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now - horizon)
return results
