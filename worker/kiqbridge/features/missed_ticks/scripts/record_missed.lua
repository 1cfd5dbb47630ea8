#!lua
-- Record ticks that did not come, each once, so that one caller raises the alert.
-- No allow-oom: with memory full it is refused as a whole before anything is written.
-- KEYS 1 missed ticks (sorted set: INSTANT SCHEDULE → instant)
-- ARGV 1 instant (epoch seconds) before which they are forgotten, then for each its instant and member
-- Returns for each 1 when it was recorded now, else 0.
-- Repeated: 0 for each.
-- See docs/explanation/schedules.md.
-- include wrong_type
local refused = wrong_type(KEYS[1], 'zset')
if refused then
  return refused
end
local new = {}
for i = 2, #ARGV, 2 do
  new[#new + 1] = redis.call('ZADD', KEYS[1], 'NX', ARGV[i], ARGV[i + 1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. ARGV[1])
return new
