-- include effects
-- include wrong_type
-- Add how a job of a schedule ended to the ends of its schedule, unless the occurrence is in no ledger (any more), so
-- that what is added is forgotten with it. Keys: ends (sorted set), ledger (sorted set). Arguments: the instant, the
-- end. Answers 1, or 0: a key is of another type, which must keep no job in flight; nothing is written.
-- Twice as many as an occurrence can have jobs: one that is dead may be retried by hand, and end again.
local MOST_ENDS = 2000
function EFFECTS.ledger(keys, args)
  if wrong_type(keys[1], 'zset') or wrong_type(keys[2], 'zset') then
    return 0
  end
  local instant = args[1]
  local is_known = redis.call('ZCOUNT', keys[2], instant, instant) > 0
  if is_known and redis.call('ZCOUNT', keys[1], instant, instant) < MOST_ENDS then
    redis.call('ZADD', keys[1], instant, args[2])
  end
  return 1
end
