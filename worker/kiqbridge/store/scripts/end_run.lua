#!lua flags=allow-oom
-- A job of a schedule runs no longer: compare and delete, or note that it was begun and goes on elsewhere.
-- KEYS 1 runs (hash, schedule -> lines)
-- ARGV 1 schedule, 2 owner, 3 jid, 4 instant, 5 '' = it goes on later
-- Returns 1, or 0: it is not noted as run by this owner (any more).
-- Repeated: 0.
-- See docs/explanation/schedules.md, reliability §14.
-- include run_lines
local kept, found = {}, 0
for _, run in ipairs(read_runs(KEYS[1], ARGV[1])) do
  if run.owner == ARGV[2] and run.jid == ARGV[3] and run.instant == ARGV[4] then
    found = 1
    run.line = ARGV[5] == '' and '- ' .. run.jid .. ' ' .. run.instant
  end
  if run.line then
    kept[#kept + 1] = run.line
  end
end
if found == 1 then
  write_runs(KEYS[1], ARGV[1], kept)
end
return found
