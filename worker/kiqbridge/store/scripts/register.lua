#!lua flags=allow-oom
-- Take out a lease: from now on the incarnation may claim jobs.
-- KEYS 1 registered incarnations (set), 2 signs of life (hash)
-- ARGV 1 incarnation, 2 milliseconds after which it may be called silent
-- Returns 1.
-- Repeated: writes the same again. An incarnation is registered only once: its name is never used anew.
-- See reliability §3.1.
-- include sign_of_life
redis.call('SADD', KEYS[1], ARGV[1])
return give_sign(1) or 1
