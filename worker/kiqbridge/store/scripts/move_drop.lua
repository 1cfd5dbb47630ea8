#!lua flags=allow-oom
-- Forget a batch of jobs that is on another shard by now, and the locks that went with it.
-- KEYS 1 the batch (list), 2 locks (hash: name → 'UNTIL JID'), 3 when each is looked at (sorted set), 4 jobs that were
--      replaced (sorted set)
-- ARGV 1 the mark of the batch, then for each of its jobs with a lock: name of the lock, jid
-- Returns 1, or 0 if there is another batch, or none.
-- Repeated: 0.
-- See reliability §16.
-- include wrong_type
-- include lock_owner
local refused = wrong_type(KEYS[2], 'hash') or wrong_type(KEYS[3], 'zset') or wrong_type(KEYS[4], 'zset')
if refused then
  return refused
end
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then
  return 0
end
local now = tonumber(redis.call('TIME')[1])
for i = 2, #ARGV, 2 do
  if lock_owner(KEYS[2], ARGV[i], now) == ARGV[i + 1] then
    free_lock(KEYS[2], KEYS[3], ARGV[i])
  end
  redis.call('ZREM', KEYS[4], ARGV[i + 1])
end
return redis.call('DEL', KEYS[1])
