#!lua
-- Put in what jobs of an export need besides their text: batches, chains, locks, results.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS for each record its keys
-- ARGV the records, as effects (parts/each_effect.lua): name, number of keys and of arguments, these. `until` is in
-- epoch seconds, 0 = for ever; what is over already is left out.
--   batch     keys batch (hash), the batches (sorted set); its id, until, then fields and values
--   jobs      keys batch (hash), its members (hash); until, then members and states. The later of two states stays
--   announce  keys of batch_fire; its id, seconds to keep it while it may change, and after its success
--   value     key (string); until, value. Of two numbers the larger one stays
--   progress  key (hash); until, then fields and values
--   lock      keys locks (hash), when they are looked at (sorted set); name, until, seconds until the first look, jid
--   span      keys spans (hash), when they are over (sorted set); name, until, value
--   add       key (sorted set); score, member
-- Returns for each record 1, or 0: another job owns the lock, or the server has something else there, which stays.
-- Repeated: changes nothing.
-- See docs/reference/command_line.md.
-- include each_effect
-- include batches.batch_fire
-- include unique.lock_owner
-- include wrong_type
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local RANK = {m = 1, e = 1, p = 2, f = 3, d = 4}
local function is_over(till)
  return tonumber(till) > 0 and tonumber(till) <= now
end
local function expire(key, till)
  if tonumber(till) > 0 then
    redis.call('EXPIRE', key, math.max(1, math.floor(till - now + 0.5)))
  end
end
local act = {}
function act.batch(keys, args)
  local is_new = redis.call('EXISTS', keys[1]) == 0
  for i = 3, #args, 2 do
    redis.call('HSETNX', keys[1], args[i], args[i + 1])
  end
  if is_new then
    redis.call('HSET', keys[1], 'total', 0, 'pending', 0, 'failed', 0)
    redis.call('ZADD', keys[2], args[2], args[1])
    expire(keys[1], args[2])
  end
  return 1
end
function act.jobs(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then
    return 0
  end
  local total, pending, failed, away = 0, 0, 0, 0
  for i = 2, #args, 2 do
    local state, former = args[i + 1], redis.call('HGET', keys[2], args[i])
    if RANK[state] > (RANK[former] or 0) then
      redis.call('HSET', keys[2], args[i], state)
      local was_pending = former and RANK[former] < 3
      total = total + (former and 0 or 1)
      pending = pending + (RANK[state] < 3 and 1 or 0) - (was_pending and 1 or 0)
      failed = failed + (state == 'f' and 1 or 0) - (former == 'f' and 1 or 0)
      away = away - (former == 'm' and 1 or 0)
    end
  end
  for name, change in pairs({total = total, pending = pending, failed = failed, away = away}) do
    if change ~= 0 then
      redis.call('HINCRBY', keys[1], name, change)
    end
  end
  if redis.call('PTTL', keys[2]) == -1 then
    expire(keys[2], args[1])
  end
  return 1
end
function act.announce(keys, args)
  batch_fire(keys, args[1], string.format('%.6f', now), args[2], args[3])
  return 1
end
function act.value(keys, args)
  local former = redis.call('GET', keys[1])
  if former and (tonumber(former) or 0) >= (tonumber(args[2]) or 0) then
    return 0
  end
  redis.call('SET', keys[1], args[2])
  expire(keys[1], args[1])
  return 1
end
function act.progress(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then
    return 0
  end
  for i = 2, #args, 2 do
    redis.call('HSET', keys[1], args[i], args[i + 1])
  end
  expire(keys[1], args[1])
  return 1
end
function act.lock(keys, args)
  local owner = lock_owner(keys[1], args[1], now)
  if owner then
    return owner == args[4] and 1 or 0
  end
  take_lock(keys[1], keys[2], args[1], args[4], args[2], math.ceil(now + args[3]))
  return 1
end
function act.span(keys, args)
  if redis.call('HSETNX', keys[1], args[1], args[3]) == 1 then
    redis.call('ZADD', keys[2], args[2], args[1])
  end
  return 1
end
function act.add(keys, args)
  return redis.call('ZADD', keys[1], 'GT', args[1], args[2]) and 1
end
local TYPES = {
  batch = {'hash', 'zset'},
  jobs = {'hash', 'hash'},
  announce = {'hash', 'hash', 'zset', 'zset'},
  value = {'string'},
  progress = {'hash'},
  lock = {'hash', 'zset'},
  span = {'hash', 'zset'},
  add = {'zset'},
}
local TILL = {batch = 2, jobs = 1, value = 1, progress = 1, lock = 2, span = 2, add = 1}
local refused
each_effect(1, 1, function(name, keys)
  for n, key in ipairs(keys) do
    refused = refused or wrong_type(key, TYPES[name][n])
  end
end)
if refused then
  return refused
end
local answers = {}
each_effect(1, 1, function(name, keys, args)
  local is_left_out = TILL[name] and is_over(args[TILL[name]])
  answers[#answers + 1] = is_left_out and 1 or act[name](keys, args)
end)
return answers
