#!lua flags=allow-oom
-- Who listens renews its sign, unless another process listens under a later generation. If there is no standby, one of
-- the parked processes is asked to look; if none has taken that since the last time, none is parked.
-- KEYS 1 sign of who listens, 2 the standby, 3 wake list, 4 registered incarnations
-- ARGV 1 new text of the sign, 2 the one before, 3 how long it lasts (ms), 4 text of a standby's that is over by the
-- caller's clock, 5 '1' = count the processes
-- Returns {what, number of processes (0 = not counted), text of the standby's}; what: 1 = renewed, 0 = another listens,
-- 2 = no other process waits: the sign is gone, and is not renewed.
-- Repeated: answers that another listens, unless the text is the same; the caller looks again.
-- See reliability §7.
local count = ARGV[5] == '1' and redis.call('SCARD', KEYS[4]) or 0
local texts = redis.call('MGET', KEYS[1], KEYS[2])
local sign, standby = texts[1], texts[2] or ''
if sign and sign ~= ARGV[2] then
  return {0, count, ''}
end
if standby ~= '' and standby == ARGV[4] then
  redis.call('DEL', KEYS[2])
  standby = ''
end
if standby == '' then
  if redis.call('LLEN', KEYS[3]) > 0 then
    redis.call('DEL', KEYS[1])
    return {2, count, ''}
  end
  redis.call('RPUSH', KEYS[3], 'look')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return {1, count, standby}
