#!lua flags=allow-oom
-- End the next jobs of a queue or a sorted set that was cleared, and let them leave Redis: from the tail of the list,
-- or with the lowest scores.
-- KEYS 1 list or sorted set, 2 reports for Step Functions (sorted set), 3 ends of jobs under flow control (sorted
--      set), then for each end: ends of its schedule (sorted set), its ledger (sorted set)
-- ARGV 1 how many are left after it, then for each job that has something to say: its report or '', its end or '',
--      the instant of that
-- Returns how many are left.
-- Repeated: adds the same again, and removes nothing.
-- See reliability §14.
-- include add_end
-- include add_report
local refused = wrong_type(KEYS[2], 'zset') or wrong_type(KEYS[3], 'zset')
if refused then
  return refused
end
local left, ends = tonumber(ARGV[1]), 4
for i = 2, #ARGV, 3 do
  if ARGV[i] ~= '' then
    add_report(KEYS[2], KEYS[3], ARGV[i])
  end
  if ARGV[i + 1] ~= '' then
    add_end(KEYS[ends], KEYS[ends + 1], ARGV[i + 2], ARGV[i + 1])
    ends = ends + 2
  end
end
if left == 0 then
  redis.call('UNLINK', KEYS[1])
elseif redis.call('TYPE', KEYS[1]).ok == 'list' then
  redis.call('LTRIM', KEYS[1], 0, left - 1)
else
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - left)
end
return left
