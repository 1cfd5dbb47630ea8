-- include begins
-- include wrong_type
-- include run_lines
-- Whether a job of a schedule begins, by the age of its occurrence and by what of the schedule runs; if it does,
-- note that it runs. Jobs of the same occurrence are no overlap. By the server's clock.
-- keys 1 runs (hash, schedule -> lines), 2 registered incarnations (set), 3 processes (set)
-- args 1 schedule, 2 owner: incarnation, or identity of a process that has none, 3 jid, 4 instant of the
--      occurrence (epoch seconds), 5 what is done while others run: allow, skip or cancel, 6 seconds after the
--      instant from which it is not begun any more, '' = any
-- Answers {'run', jids to be cancelled…}, {'expired'} or {'skipped', jid of one that runs}. One that was begun before,
-- here or by a process that died, is not expired. See docs/explanation/schedules.md.
-- Of what does not run any more so much is kept: whether it was begun matters until it has ended.
local MOST_RUNS = 100
local RUNS_HORIZON = 17 * 86400
function BEGINS.run(keys, args)
  local refused = wrong_type(keys[1], 'hash')
  if refused then
    return refused
  end
  local time = redis.call('TIME')
  local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
  local kept, running, is_begun = {}, {}, false
  for _, run in ipairs(read_runs(keys[1], args[1])) do
    if run.jid == args[3] and run.instant == args[4] then
      is_begun = true
    else
      local lives = run.owner ~= '-'
        and redis.call('SISMEMBER', keys[2], run.owner) + redis.call('SISMEMBER', keys[3], run.owner) > 0
      if lives and run.instant ~= args[4] then
        running[#running + 1] = run.jid
      end
      if lives or #kept < MOST_RUNS and tonumber(run.instant) > now - RUNS_HORIZON then
        kept[#kept + 1] = run.line
      end
    end
  end
  if not is_begun and args[6] ~= '' and now > tonumber(args[4]) + tonumber(args[6]) then
    return {'expired'}
  end
  if args[5] == 'skip' and running[1] then
    write_runs(keys[1], args[1], kept)
    return {'skipped', running[1]}
  end
  kept[#kept + 1] = args[2] .. ' ' .. args[3] .. ' ' .. args[4]
  write_runs(keys[1], args[1], kept)
  return {'run', unpack(args[5] == 'cancel' and running or {})}
end
