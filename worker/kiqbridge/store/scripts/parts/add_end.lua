-- include wrong_type
-- Add how a job of a schedule ended, unless the occurrence is in no ledger (any more), so that what is added is
-- forgotten with it. False: a key is of another type, which must keep no job in flight; nothing is written.
-- Twice as many as an occurrence can have jobs: one that is dead may be retried by hand, and end again.
local MOST_ENDS = 2000
local function add_end(ends, ledger, instant, text)
  if wrong_type(ends, 'zset') or wrong_type(ledger, 'zset') then
    return false
  end
  local is_known = redis.call('ZCOUNT', ledger, instant, instant) > 0
  if is_known and redis.call('ZCOUNT', ends, instant, instant) < MOST_ENDS then
    redis.call('ZADD', ends, instant, text)
  end
  return true
end
