#!lua flags=no-writes,allow-oom
-- Read parts of lists of jobs from their heads, and of sorted sets from their ends, one after the other, and find the jids
-- of jobs under flow control, and of those of schedules. What is added or taken at the other end moves nothing that is
-- still to be read.
-- KEYS lists and sorted sets
-- ARGV 1 place of the first job in the first key (from 0), 2 how many jobs, 3 most bytes
-- Returns which key to go on with (from 0; the number of keys at their end), at which place, how many jobs were read, then
-- the jids; of nested objects in such a job those too.
-- Repeated: the same again.
-- See reliability §14.
-- include sought
local first, most, room = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local n, found = 0, {0, 0, 0}
for k, key in ipairs(KEYS) do
  local kind, largest, step, count, texts = redis.call('TYPE', key).ok, 1, 250
  repeat
    if n >= most or room <= 0 then
      found[1], found[2], found[3] = k - 1, first, n
      return found
    end
    count, texts = math.min(step, most - n), {}
    if kind == 'list' then
      texts = redis.call('LRANGE', key, first, first + count - 1)
    elseif kind == 'zset' then
      texts = redis.call('ZRANGE', key, first, first + count - 1, 'REV')
    end
    for _, text in ipairs(texts) do
      if string.find(text, '"flow"', 1, true) or string.find(text, '"tick"', 1, true) then
        for jid in string.gmatch(text, '"jid"%s*:%s*"([^"]*)"') do
          found[#found + 1] = jid
        end
      end
      largest, room = math.max(largest, #text), room - #text
    end
    first, n = first + #texts, n + #texts
    step = next_step(step, ARGV[3], largest, 1000)
  until #texts < count
  first = 0
end
found[1], found[3] = #KEYS, n
return found
