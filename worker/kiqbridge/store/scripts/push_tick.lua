#!lua
-- Enqueue the jobs of one occurrence of a schedule, all or none, once, however many callers there are.
-- The server's own clock decides what is too old, so that all callers agree.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- The ledger has no TTL: a server whose memory is full evicts what has one. An entry stays until its
-- instant is older than what the ledger remembers, however far ahead it was; the ledger of a schedule
-- that is no more is forgotten by forget_ledgers.lua.
-- KEYS 1 names of queues (set), 2 ledger of the schedule (sorted set), 3 schedules that have a ledger
--      (sorted set: when its last entry is over), then for each job its queue list or sorted set
-- ARGV 1 instant (epoch seconds), 2 seconds that the ledger remembers, 3 entry for the ledger,
--      4 name of the schedule, 5 seconds that the instant may lie ahead of the server's clock, '' = any,
--      then for each job: queue name, score ('' = at once), text, length at which its queue takes no more
--      ('' = any)
-- Returns {'enqueued'}, {'duplicate', entry of the first time}, {'stale'}, or {'future'}: an
-- instant that is not due yet would make its true delivery a duplicate. Or {number of the job, length} for
-- each job whose queue is at its limit, and nothing is pushed.
-- Repeated: {'duplicate', the same entry}, and nothing is pushed.
-- See reliability §11, protocol §5.5.
-- include wrong_type
-- include push
-- include too_deep
-- An hour: a failover to a server whose clock lags must not forget what it still asks for.
local MARGIN = 3600
local instant, horizon = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(redis.call('TIME')[1])
if instant < now - horizon then
  return {'stale'}
end
if ARGV[5] ~= '' and instant > now + tonumber(ARGV[5]) then
  return {'future'}
end
local known = redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], ARGV[1], 'LIMIT', 0, 1)
if known[1] then
  return {'duplicate', known[1]}
end
local refused = wrong_type(KEYS[1], 'set') or wrong_type(KEYS[3], 'zset')
for i = 1, #KEYS - 3 do
  refused = refused or wrong_type(KEYS[i + 3], type_for(ARGV[4 * i + 3]))
end
if refused then
  return refused
end
local deep = {}
for i = 1, #KEYS - 3 do
  too_deep(deep, i, KEYS[i + 3], ARGV[4 * i + 5])
end
if deep[1] then
  return deep
end
redis.call('ZADD', KEYS[3], 'GT', instant + horizon + MARGIN, ARGV[4])
for i = 1, #KEYS - 3 do
  push(KEYS[1], ARGV[4 * i + 2], KEYS[i + 3], ARGV[4 * i + 3], ARGV[4 * i + 4])
end
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - horizon - MARGIN)
redis.call('PERSIST', KEYS[2]) -- one of an earlier version had a TTL
return {'enqueued'}
