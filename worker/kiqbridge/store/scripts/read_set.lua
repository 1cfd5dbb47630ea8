#!lua flags=no-writes,allow-oom
-- Read members of a sorted set by rank, from behind a member that was seen, in steps, so that neither this server nor
-- the caller holds many more bytes than were asked for.
-- KEYS 1 sorted set
-- ARGV 1 rank to begin with if the members below are gone, 2 most members to look at, 3 most bytes, 4 text that is
--      looked for, or '', then members that were seen, the last one first, each with its score: the first of them
--      that is as it was is where to go on
-- Returns the rank of the first member that was looked at, how many were (at least one, if there is one), the last of
-- them and its score, then those that contain the text, each with its score.
-- Repeated: reads again; it writes nothing.
-- See protocol §22.
-- include sought
local first = tonumber(ARGV[1])
for i = 5, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i + 1]) then
    first = redis.call('ZRANK', KEYS[1], ARGV[i]) + 1
    break
  end
end
local most, room = tonumber(ARGV[2]), tonumber(ARGV[3])
local found, n, step, largest = {first, 0, '', '0'}, 0, 1, 1
while n < most do
  local part = redis.call('ZRANGE', KEYS[1], first + n, first + n + math.min(step, most - n) - 1, 'WITHSCORES')
  if not part[1] then
    return found
  end
  for i = 1, #part, 2 do
    local size = #part[i]
    room = room - size
    if room < 0 and n > 0 then
      return found
    end
    if is_sought(part[i], ARGV[4]) then
      found[#found + 1] = part[i]
      found[#found + 1] = part[i + 1]
    end
    n = n + 1
    found[2], found[3], found[4] = n, part[i], part[i + 1]
    largest = math.max(largest, size)
  end
  step = next_step(step, room, largest, 64)
end
return found
