#!lua flags=allow-oom
-- Take members off a sorted set that cannot become jobs, into the dead set, or that are dropped; add their reports
-- for state machines that wait for them, and their ends for the ledgers of their schedules.
-- KEYS 1 sorted set, 2 dead set, 3 reports for Step Functions (sorted set), 4 ends of jobs under flow control
--      (sorted set), then for each end: ends of its schedule (sorted set), its ledger (sorted set)
-- ARGV 1 now (score), then for each member: as read, as it is to be kept or '', its report or '', its end
--      or '', the instant of that
-- Returns how many left the sorted set.
-- Repeated: takes only what is still in the sorted set and still due.
-- See reliability §10, reliability §4.1, reliability §14.
-- include add_twin
-- include add_end
-- include add_report
local refused = wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset') or wrong_type(KEYS[4], 'zset')
if refused then
  return refused
end
local moved, ends = 0, 5
for i = 2, #ARGV, 5 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  local is_due = score and tonumber(score) <= tonumber(ARGV[1])
  if ARGV[i + 3] ~= '' then
    if is_due then
      add_end(KEYS[ends], KEYS[ends + 1], ARGV[i + 4], ARGV[i + 3])
    end
    ends = ends + 2
  end
  if is_due then
    if ARGV[i + 1] ~= '' then
      add_twin(KEYS[2], ARGV[1], ARGV[i + 1])
    end
    if ARGV[i + 2] ~= '' then
      add_report(KEYS[3], KEYS[4], ARGV[i + 2])
    end
    redis.call('ZREM', KEYS[1], ARGV[i])
    moved = moved + 1
  end
end
return moved
