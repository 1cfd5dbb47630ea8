#!lua flags=allow-oom
-- Give a sign of life for the owner of a lease. A lease that was taken away is never given back here.
-- KEYS 1 registered incarnations (set), 2 signs of life (hash)
-- ARGV 1 incarnation, 2 milliseconds after which it may be called silent
-- A sign is its number, which grows, the server's time, for display only, and ARGV 2. It has no TTL,
-- since a server whose memory is full may evict what has one: whoever watches looks whether it changes.
-- Answers 1, or 0 when the lease is gone (fenced).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local last, number = redis.pcall('HGET', KEYS[2], ARGV[1]), 1
if type(last) == 'string' then
  number = (tonumber(string.match(last, '^%d+')) or 0) + 1
end
local time = redis.call('TIME')
-- pcall: with a foreign type here nobody is found silent, and the lease holds all the same
local said = redis.pcall('HSET', KEYS[2], ARGV[1], string.format('%.0f %s.%06d %s', number, time[1], time[2], ARGV[2]))
if type(said) == 'table' and said.err and not string.find(said.err, 'WRONGTYPE', 1, true) then
  return said
end
return 1
