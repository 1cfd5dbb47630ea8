#!lua flags=allow-oom
-- Whether a unique job begins: not if another one has replaced it, nor, if it takes its lock only now, while
-- another one owns that. One whose lock holds until it begins frees it.
-- KEYS 1 locks (hash: name → 'UNTIL JID'), 2 when each is looked at (sorted set), 3 jobs that were replaced (sorted
--      set)
-- ARGV 1 name of its lock, 2 jid, 3 start or done: when the lock is freed, 4 seconds for which it is taken now,
--      '' = the push took it, 5 seconds until a lock is looked at
-- Returns '': it begins; 'replaced', or the jid that owns the lock: it does not.
-- Repeated: the same.
-- See reliability §14.
-- include wrong_type
-- include lock_owner
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
if refused then
  return refused
end
if redis.call('ZSCORE', KEYS[3], ARGV[2]) then
  return 'replaced'
end
local now = tonumber(redis.call('TIME')[1])
local owner = lock_owner(KEYS[1], ARGV[1], now)
if ARGV[4] ~= '' and owner and owner ~= ARGV[2] then
  return owner
end
if ARGV[3] == 'start' then
  if owner == ARGV[2] then
    free_lock(KEYS[1], KEYS[2], ARGV[1])
  end
elseif ARGV[4] ~= '' and not owner then
  take_lock(KEYS[1], KEYS[2], ARGV[1], ARGV[2], math.ceil(now + ARGV[4]), now + ARGV[5])
end
return ''
