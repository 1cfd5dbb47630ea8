#!lua flags=allow-oom
-- One leader at a time: take, renew or release.
-- KEYS 1 who leads (string)
-- ARGV 1 the caller, 2 milliseconds of leadership; 0 = release
-- Returns 1 when the caller leads now, else 0.
-- Repeated: the leader renews its time; one that has released gets 0.
-- See reliability §8, reliability §10.
local leader = redis.call('GET', KEYS[1])
if leader and leader ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
