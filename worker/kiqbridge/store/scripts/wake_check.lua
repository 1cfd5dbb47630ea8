#!lua flags=allow-oom
-- A parked process looks whether anybody listens to its set of queues, and takes the place that is vacant.
-- KEYS 1 sign of who listens, 2 the standby, 3 wake list, 4 registered incarnations
-- ARGV 1 who looks, 2 generation to listen under, 3 how long the sign lasts (ms), 4 the same of the standby's
-- Returns {what, number of processes, for how long the sign lasts (ms)}; what: 2 = it listens now, 1 = it is the
-- standby, 0 = neither.
-- Repeated: the same, as long as nobody else has written meanwhile.
-- See reliability §7.
local count = redis.call('SCARD', KEYS[4])
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  redis.call('DEL', KEYS[3])
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return {2, count, tonumber(ARGV[3])}
end
local standby = redis.call('GET', KEYS[2])
if not standby or standby == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
  return {1, count, left}
end
return {0, count, left}
