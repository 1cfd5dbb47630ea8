#!lua flags=allow-oom
-- Free locks whose jobs are gone, as far as those still own them, and look at others again later.
-- KEYS 1 locks (hash: name → 'UNTIL JID'), 2 when each is looked at (sorted set)
-- ARGV 1 seconds until the others are looked at again, 2 how many these are, then name and jid of each of these, then
--      of each whose job is gone
-- Returns how many were freed.
-- Repeated: 0.
-- See reliability §14.
-- include wrong_type
-- include lock_owner
local refused = wrong_type(KEYS[1], 'hash') or wrong_type(KEYS[2], 'zset')
if refused then
  return refused
end
local now = tonumber(redis.call('TIME')[1])
local freed = 0
for i = 3, #ARGV, 2 do
  if lock_owner(KEYS[1], ARGV[i], now) == ARGV[i + 1] then
    if i < 3 + 2 * ARGV[2] then
      redis.call('ZADD', KEYS[2], now + ARGV[1], ARGV[i])
    else
      free_lock(KEYS[1], KEYS[2], ARGV[i])
      freed = freed + 1
    end
  end
end
return freed
