#!lua flags=allow-oom
-- Take out a lease: from now on the incarnation may claim jobs.
-- KEYS 1 registered incarnations (set), 2 signs of life (hash)
-- ARGV 1 incarnation, 2 milliseconds after which it may be called silent
redis.call('SADD', KEYS[1], ARGV[1])
-- pcall: with a foreign type here nobody is found silent, and the lease holds all the same
local time = redis.call('TIME')
local said = redis.pcall('HSET', KEYS[2], ARGV[1], string.format('1 %s.%06d %s', time[1], time[2], ARGV[2]))
if type(said) == 'table' and said.err and not string.find(said.err, 'WRONGTYPE', 1, true) then
  return said
end
return 1
