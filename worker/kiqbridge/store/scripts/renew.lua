#!lua flags=allow-oom
-- Give a sign of life for the owner of a lease. A lease that was taken away is never given back here.
-- KEYS 1 registered incarnations (set), 2 signs of life (hash)
-- ARGV 1 incarnation, 2 milliseconds after which it may be called silent
-- A sign has no TTL, since a server whose memory is full may evict what has one: a watcher looks whether
-- it changes.
-- Returns 1, or 0 when the lease is gone (fenced).
-- Repeated: gives another sign.
-- See reliability §3.2.
-- include sign_of_life
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local last, number = redis.pcall('HGET', KEYS[2], ARGV[1]), 1
if type(last) == 'string' then
  number = (tonumber(string.match(last, '^%d+')) or 0) + 1
end
return give_sign(number) or 1
