#!lua flags=allow-oom
-- Look at some jobs of an in-flight list, without handing out their texts.
-- KEYS 1 in-flight list
-- ARGV 1 index of the first one, from the newest, 2 most jobs, 3 bytes after which to stop
-- Returns how many the list holds, then for each job the SHA-1 of its bytes and its jid, '' = none.
-- Repeated: reads again; it writes nothing.
-- See reliability §3.4, reliability §8.
local reply, bytes = {redis.call('LLEN', KEYS[1])}, 0
local first = tonumber(ARGV[1])
for i = first, first + tonumber(ARGV[2]) - 1 do
  local job = redis.call('LINDEX', KEYS[1], i)
  if not job or bytes >= tonumber(ARGV[3]) then
    break
  end
  bytes = bytes + #job
  -- The last one, as raw_job.py finds it.
  local jid = string.match(job, '^.*"jid"%s*:%s*"([%w_.:-]+)"')
  reply[#reply + 1] = redis.sha1hex(job)
  reply[#reply + 1] = jid and #jid <= 100 and jid or ''
end
return reply
