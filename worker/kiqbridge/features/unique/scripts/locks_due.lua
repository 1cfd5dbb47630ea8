#!lua flags=allow-oom
-- Forget jobs whose replacement is over, by the server's clock, and find the locks that are to be looked at.
-- KEYS 1 locks (hash: name → 'UNTIL JID'), 2 when each is looked at (sorted set), 3 jobs that were replaced (sorted
--      set)
-- ARGV 1 how many at most, of each
-- Returns name and jid of each lock, one after the other.
-- Repeated: the same again.
-- See reliability §14.
-- include wrong_type
-- include lock_owner
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
local found = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local owner = lock_owner(KEYS[1], name, now)
  if owner then
    found[#found + 1] = name
    found[#found + 1] = owner
  else
    free_lock(KEYS[1], KEYS[2], name)
  end
end
return found
