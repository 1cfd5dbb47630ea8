#!lua
-- Enqueue the jobs of one occurrence of a schedule, all or none, once whoever asks.
-- The server's own clock decides what is too old, so that all callers agree.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- KEYS 1 names of queues (set), 2 ledger of the schedule (sorted set), then for each job its queue
--      list or sorted set
-- ARGV 1 instant (epoch seconds), 2 seconds that the ledger remembers, 3 entry for the ledger,
--      then for each job: queue name, score ('' = at once), text
-- Answers {'enqueued'}, {'duplicate', entry of the first time} or {'stale'}.
local instant, horizon = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(redis.call('TIME')[1])
if instant < now - horizon then
  return {'stale'}
end
local known = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], ARGV[1], 'LIMIT', 0, 1)
if known[1] then
  return {'duplicate', known[1]}
end
local function refusal(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end
local refused = refusal(KEYS[1], 'set')
for i = 1, #KEYS - 2 do
  refused = refused or refusal(KEYS[i + 2], ARGV[3 * i + 2] == '' and 'list' or 'zset')
end
if refused then
  return refused
end
for i = 1, #KEYS - 2 do
  if ARGV[3 * i + 2] == '' then
    redis.call('SADD', KEYS[1], ARGV[3 * i + 1])
    redis.call('LPUSH', KEYS[i + 2], ARGV[3 * i + 3])
  else
    redis.call('ZADD', KEYS[i + 2], ARGV[3 * i + 2], ARGV[3 * i + 3])
  end
end
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[3])
-- An hour of margin: a failover to a server whose clock lags must not forget what it still asks for.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - horizon - 3600)
redis.call('EXPIRE', KEYS[2], horizon + 7200)
return {'enqueued'}
