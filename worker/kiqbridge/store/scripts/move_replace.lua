#!lua flags=allow-oom
-- Note that a unique job, whose lock it has on this shard, was replaced by one on another shard.
-- KEYS 1 locks (hash: name → 'UNTIL JID'), 2 when each is looked at (sorted set), 3 jobs that were replaced (sorted
--      set: until when that is known)
-- ARGV 1 name of the lock, 2 jid that owned it, 3 until when that is to be known
-- Returns 1 if it had its lock still, else 0.
-- Repeated: 0; the note is there.
-- See reliability §16.
-- include wrong_type
-- include lock_owner
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
if refused then
  return refused
end
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[2])
if lock_owner(KEYS[1], ARGV[1], tonumber(redis.call('TIME')[1])) ~= ARGV[2] then
  return 0
end
free_lock(KEYS[1], KEYS[2], ARGV[1])
return 1
