#!lua flags=no-writes,allow-oom
-- Read jobs of a queue from a place on, in steps, so that neither this server nor the caller holds many more bytes than
-- were asked for; those that contain a text, if one is given.
-- KEYS 1 queue list
-- ARGV 1 how many to pass over, 2 `head` or `tail`: the end from which they are counted, 3 most jobs to look at, 4 most
--      bytes, 5 text that is looked for, or '', 6 how many to read at first: finding a place within a long
--      list takes up to a millisecond, so a reader says here what fits
-- Returns the length of the queue, how many jobs were looked at (at least one, if there is one), bytes of the largest of
-- them, then for each that is given: how many were passed over before it, its text.
-- Repeated: reads again; it writes nothing.
-- See protocol §22.
-- include sought
local first, is_tail, most, room = tonumber(ARGV[1]), ARGV[2] == 'tail', tonumber(ARGV[3]), tonumber(ARGV[4])
local found, n, step, largest = {redis.call('LLEN', KEYS[1]), 0, 1}, 0, tonumber(ARGV[6]), 1
while n < most do
  local from, last = first + n, first + n + math.min(step, most - n) - 1
  local part = is_tail and redis.call('LRANGE', KEYS[1], -1 - last, -1 - from) or redis.call('LRANGE', KEYS[1], from, last)
  if not part[1] then
    return found
  end
  for i = 1, #part do
    local text = part[is_tail and #part + 1 - i or i]
    room = room - #text
    if room < 0 and n > 0 then
      return found
    end
    if is_sought(text, ARGV[5]) then
      found[#found + 1] = first + n
      found[#found + 1] = text
    end
    n = n + 1
    largest = math.max(largest, #text)
    found[2], found[3] = n, largest
  end
  step = next_step(step, room, largest, 128)
end
return found
