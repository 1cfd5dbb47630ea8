#!lua flags=allow-oom
-- Forget guards that are over by the server's clock.
-- KEYS 1 guards (hash), 2 when they are over (sorted set)
-- ARGV 1 how many at most
-- Returns how many were forgotten.
-- Repeated: forgets others that are over.
-- See reliability §11.
-- include forget_over
return forget_over(KEYS[1], KEYS[2], redis.call('TIME')[1], ARGV[1])
