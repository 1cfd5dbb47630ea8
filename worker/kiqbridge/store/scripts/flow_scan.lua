#!lua flags=no-writes,allow-oom
-- Read a part of a list of jobs from its head, or of a sorted set from its end, and find the jids of those under flow
-- control, and of those of schedules. What is added or taken at the other end moves nothing that is still to be read.
-- KEYS 1 list or sorted set
-- ARGV 1 place of the first (from 0), 2 how many
-- Returns how many were read, then the jids; of nested objects in such a job those too.
-- Repeated: the same again.
-- See reliability §14.
local kind = redis.call('TYPE', KEYS[1]).ok
local last = ARGV[1] + ARGV[2] - 1
local texts = {}
if kind == 'list' then
  texts = redis.call('LRANGE', KEYS[1], ARGV[1], last)
elseif kind == 'zset' then
  texts = redis.call('ZRANGE', KEYS[1], ARGV[1], last, 'REV')
end
local found = {#texts}
for _, text in ipairs(texts) do
  if string.find(text, '"flow"', 1, true) or string.find(text, '"tick"', 1, true) then
    for jid in string.gmatch(text, '"jid"%s*:%s*"([^"]*)"') do
      found[#found + 1] = jid
    end
  end
end
return found
