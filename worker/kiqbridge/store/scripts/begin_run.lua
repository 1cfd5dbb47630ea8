#!lua flags=allow-oom
-- Whether a job of a schedule begins, by the age of its occurrence and by what of the schedule runs; if it does,
-- note that it runs. Jobs of the same occurrence are no overlap. By the server's clock.
-- KEYS 1 runs (hash, schedule -> lines), 2 registered incarnations (set), 3 processes (set)
-- ARGV 1 schedule, 2 owner: incarnation, or identity of a process that has none, 3 jid, 4 instant of the
--      occurrence (epoch seconds), 5 what is done while others run: allow, skip or cancel, 6 seconds after the
--      instant from which it is not begun any more, '' = any
-- Returns {'run', jids to be cancelled…}, {'expired'} or {'skipped', jid of one that runs}.
-- Repeated: the same; one that was begun before, here or by a process that died, is not expired.
-- See docs/schedules.md, reliability §14.
-- include run_lines
-- Of what does not run any more so much is kept: whether it was begun matters until it has ended.
local MOST_KEPT = 100
local HORIZON = 17 * 86400
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local kept, running, is_begun = {}, {}, false
for _, run in ipairs(read_runs(KEYS[1], ARGV[1])) do
  if run.jid == ARGV[3] and run.instant == ARGV[4] then
    is_begun = true
  else
    local lives = run.owner ~= '-'
      and redis.call('SISMEMBER', KEYS[2], run.owner) + redis.call('SISMEMBER', KEYS[3], run.owner) > 0
    if lives and run.instant ~= ARGV[4] then
      running[#running + 1] = run.jid
    end
    if lives or #kept < MOST_KEPT and tonumber(run.instant) > now - HORIZON then
      kept[#kept + 1] = run.line
    end
  end
end
if not is_begun and ARGV[6] ~= '' and now > tonumber(ARGV[4]) + tonumber(ARGV[6]) then
  return {'expired'}
end
if ARGV[5] == 'skip' and running[1] then
  write_runs(KEYS[1], ARGV[1], kept)
  return {'skipped', running[1]}
end
kept[#kept + 1] = ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4]
write_runs(KEYS[1], ARGV[1], kept)
return {'run', unpack(ARGV[5] == 'cancel' and running or {})}
