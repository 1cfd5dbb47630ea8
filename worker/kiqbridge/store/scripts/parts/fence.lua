-- Fence: an incarnation that the set KEYS[1] (registered, or being reaped) does not hold may do nothing
-- more (reliability §3). Reads KEYS[1] and ARGV[1].
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
