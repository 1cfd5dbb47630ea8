#!lua flags=allow-oom
-- Who listens renews its sign, unless another process listens under a later generation. If there is no standby, one of
-- the parked processes is asked to look; if nobody has taken that since the last time, nobody is parked.
-- KEYS 1 sign of who listens, 2 the standby, 3 wake list
-- ARGV 1 generation, 2 how long the sign lasts (ms)
-- Returns 1 = renewed, 0 = another listens, 2 = nobody else waits: the sign is gone, and is not renewed.
-- Repeated: the sign lasts a little longer; a second request to look finds nobody and is left.
-- See reliability §7.
local sign = redis.call('GET', KEYS[1])
if sign and sign ~= ARGV[1] then
  return 0
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  if redis.call('LLEN', KEYS[3]) > 0 then
    redis.call('DEL', KEYS[1])
    return 2
  end
  redis.call('RPUSH', KEYS[3], 'look')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
