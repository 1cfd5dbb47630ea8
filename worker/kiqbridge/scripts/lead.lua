#!lua flags=allow-oom
-- One leader at a time: take, renew or release.
-- KEYS 1 who leads (string)
-- ARGV 1 who asks, 2 milliseconds of leadership; 0 = release
-- Answers 1 when the asker leads now, else 0.
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
