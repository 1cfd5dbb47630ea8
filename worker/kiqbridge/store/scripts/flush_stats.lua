#!lua flags=allow-oom
-- Add what one process counted, once for each number.
-- KEYS 1 number of the last flush of this process, then the counters
-- ARGV 1 number of this flush, 2 seconds to remember it, then for each counter: what is added,
--      seconds to keep it ('' = for ever); a key for which '' is added is a hash, which gets the rest:
--      fields, each with what is added
-- Returns 1, or 0 when it was added already.
-- Repeated, or delivered late: 0, and nothing is added.
-- See protocol §11.
-- include flush_once
if is_flushed() then
  return 0
end
for i = 2, #KEYS do
  local added, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  -- pcall: a counter that was overwritten must not make the others count twice
  if added ~= '' then
    redis.pcall('INCRBY', KEYS[i], added)
  else
    for j = 2 * #KEYS + 1, #ARGV, 2 do
      redis.pcall('HINCRBY', KEYS[i], ARGV[j], ARGV[j + 1])
    end
  end
  if ttl ~= '' then
    redis.call('EXPIRE', KEYS[i], ttl)
  end
end
note_flushed()
return 1
