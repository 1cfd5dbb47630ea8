#!lua flags=allow-oom
-- A parked process looks whether anybody listens to its set of queues, and takes the place that is vacant.
-- KEYS 1 sign of who listens, 2 the standby, 3 wake list, 4 registered incarnations
-- ARGV 1 what it writes into the place, 2 what it wrote last as the standby, 3 how long the sign lasts (ms), 4 the same
-- of the standby's, 5 6 texts of the sign and of the standby's that are over by the caller's clock, 7 '1' = count the
-- processes
-- A sign that ends later than any was written to end is over: the server's clock was set back.
-- Returns {what, number of processes (0 = not counted), for how long the sign lasts (ms), its text, the standby's};
-- what: 2 = it listens now, 1 = it is the standby, 0 = neither.
-- Repeated: the same, as long as no other process has written meanwhile.
-- See reliability §7.
local count = ARGV[7] == '1' and redis.call('SCARD', KEYS[4]) or 0
-- MGET: a key of a foreign type is a place that is vacant
local texts, left = redis.call('MGET', KEYS[1], KEYS[2]), redis.call('PTTL', KEYS[1])
local sign, standby = texts[1] or '', texts[2] or ''
if sign == ARGV[5] or left == -2 or left > tonumber(ARGV[3]) then
  redis.call('DEL', KEYS[3])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  return {2, count, tonumber(ARGV[3]), ARGV[1], standby}
end
if standby == '' or standby == ARGV[2] or standby == ARGV[6] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[4])
  return {1, count, left, sign, ARGV[1]}
end
return {0, count, left, sign, standby}
