#!lua flags=allow-oom
-- Forget the ledgers of schedules whose last entry is over by the server's clock, with what belongs to them.
-- KEYS 1 schedules that have a ledger (sorted set: when its last entry is over), then for each its ledger,
--      how often its occurrences were delivered, and how their jobs ended
-- ARGV their names
-- Returns how many were forgotten; one that was written to meanwhile stays.
-- Repeated: those that are forgotten are not counted again.
-- See reliability §11.
local now = tonumber(redis.call('TIME')[1])
local forgotten = 0
for i = 1, #ARGV do
  local till = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if till and tonumber(till) < now then
    redis.call('UNLINK', KEYS[3 * i - 1], KEYS[3 * i], KEYS[3 * i + 1])
    redis.call('ZREM', KEYS[1], ARGV[i])
    forgotten = forgotten + 1
  end
end
return forgotten
