#!lua flags=allow-oom
-- Add what one process counted, once for each number, also when an earlier call arrives late (§11).
-- KEYS 1 number of the last flush of this process, then the counters
-- ARGV 1 number of this flush, 2 seconds to remember it, then for each counter: what is added,
--      seconds to keep it ('' = for ever)
-- Answers 1, or 0 when it was added already.
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then
  return 0
end
for i = 2, #KEYS do
  local added, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  -- pcall: a counter that somebody has overwritten must not make the others count twice
  redis.pcall('INCRBY', KEYS[i], added)
  if ttl ~= '' then
    redis.call('EXPIRE', KEYS[i], ttl)
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
