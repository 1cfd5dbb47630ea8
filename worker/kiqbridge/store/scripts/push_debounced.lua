#!lua
-- Schedule jobs that run once no other of their name has come for a while: each takes the place of the one that
-- waits. The job itself is always in the schedule; the entry here only says which one that is.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- KEYS 1 scheduled jobs (sorted set), 2 spans (hash: name → 'FIRST TEXT'), 3 when they are over (sorted set)
-- ARGV for each job: its name, seconds to wait, seconds that it may wait in all ('' = any), text
-- Returns for each job when it runs, as text.
-- Repeated: the same job waits anew; if it was taken by then, it is pushed again.
-- See reliability §14, protocol §5.5.
-- include wrong_type
-- include forget_over
local MOST_FORGOTTEN = 10
local KEPT = 60 -- seconds for which an entry outlasts its job's time: a poller may be late
local refused = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'hash') or wrong_type(KEYS[3], 'zset')
if refused then
  return refused
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local answers = {}
for i = 1, #ARGV, 4 do
  local name, most, text = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local first, waiting = string.match(redis.call('HGET', KEYS[2], name) or '', '^(%S+) (.*)$')
  local began = now
  local waits = waiting and redis.call('ZSCORE', KEYS[1], waiting)
  if waits then
    began = tonumber(first)
  end
  local at = now + ARGV[i + 1]
  if most ~= '' then
    at = math.min(at, began + most)
  end
  at = string.format('%.6f', at)
  redis.call('ZADD', KEYS[1], at, text)
  redis.call('ZADD', KEYS[3], math.ceil(at + KEPT), name)
  redis.call('HSET', KEYS[2], name, string.format('%.6f', began) .. ' ' .. text)
  if waits and waiting ~= text then
    redis.call('ZREM', KEYS[1], waiting)
  end
  answers[#answers + 1] = at
end
forget_over(KEYS[2], KEYS[3], now, MOST_FORGOTTEN)
return answers
