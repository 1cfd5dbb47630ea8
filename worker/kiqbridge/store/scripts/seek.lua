#!lua flags=no-writes,allow-oom
-- Look for the jobs that contain a text in several queues and sorted sets, one after the other: in each from the end at
-- which jobs are added, so that what is taken at the other end moves nothing that is still to be read.
-- KEYS queue lists and sorted sets
-- ARGV 1 text that is looked for, 2 most jobs to look at, 3 most bytes, 4 how many jobs to pass over in the first key, 5 how
--      many to read there at first: finding a place within a long list takes up to a millisecond
-- Returns which key to go on with (from 0; the number of keys at their end), how many jobs to pass over in it, how many to
-- read there at first, then of each job with the text its key (from 0), its score, or how many are to be taken before
-- it, and its text.
-- Repeated: reads again; it writes nothing.
-- See protocol §22.
-- include sought
local most, room, first, step = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local n, found = 0, {0, 0, 1}
for k, key in ipairs(KEYS) do
  local is_set, largest = redis.call('TYPE', key).ok == 'zset', 1
  local length = redis.call(is_set and 'ZCARD' or 'LLEN', key)
  while first < length do
    if n >= most or room <= 0 then
      found[1], found[2], found[3] = k - 1, first, step
      return found
    end
    local last = first + math.min(step, most - n) - 1
    local part = is_set and redis.call('ZRANGE', key, first, last, 'REV') or redis.call('LRANGE', key, first, last)
    for i, text in ipairs(part) do
      if string.find(text, ARGV[1], 1, true) then
        found[#found + 1] = k - 1
        found[#found + 1] = is_set and redis.call('ZSCORE', key, text) or length - first - i
        found[#found + 1] = text
      end
      largest, room = math.max(largest, #text), room - #text
    end
    first, n = first + #part, n + #part
    step = next_step(step, ARGV[3], largest, 1000)
  end
  first, step = 0, 1
end
found[1] = #KEYS
return found
