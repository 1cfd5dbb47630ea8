#!lua flags=allow-oom
-- Begin to reap an incarnation: from now on its owner can neither claim nor settle anything, and its
-- lists only get shorter. A reaper that dies in between leaves the mark behind, and another process goes on.
-- KEYS 1 registered incarnations (set), 2 those being reaped (set), 3 signs of life (hash)
-- ARGV 1 incarnation, 2 '1' = by the owner, who is alive, 3 the sign of life that was seen, '' = none
-- Returns 1; -1 when the lease was gone already, -2 when the owner has given another sign of life since.
-- Repeated: 1, also when another process began it.
-- See reliability §3.4.
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 0 then
  if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
    return -1
  end
  if ARGV[2] ~= '1' and (redis.call('HGET', KEYS[3], ARGV[1]) or '') ~= ARGV[3] then
    return -2
  end
  redis.call('SADD', KEYS[2], ARGV[1])
end
redis.call('SREM', KEYS[1], ARGV[1])
redis.pcall('HDEL', KEYS[3], ARGV[1])  -- pcall: a foreign type holds no sign of life
return 1
