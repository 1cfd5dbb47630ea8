-- The runs of a schedule are a line `OWNER JID INSTANT` each, in the field of a hash; '-' in the place of the
-- owner: the job was begun, and went back to its queue.
local function read_runs(key, schedule)
  local runs = {}
  for line in string.gmatch(redis.call('HGET', key, schedule) or '', '[^\n]+') do
    local owner, jid, instant = string.match(line, '^(%S+) (%S*) (%d+)$')
    if owner then
      runs[#runs + 1] = {owner = owner, jid = jid, instant = instant, line = line}
    end
  end
  return runs
end
local function write_runs(key, schedule, lines)
  if lines[1] then
    redis.call('HSET', key, schedule, table.concat(lines, '\n'))
  else
    redis.call('HDEL', key, schedule)
  end
end
