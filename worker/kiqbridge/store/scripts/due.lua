#!lua flags=no-writes,allow-oom
-- Read due members of a sorted set, the first ones first, in steps, so that neither this server nor the
-- caller holds many more bytes than were asked for.
-- KEYS 1 sorted set
-- ARGV 1 now (score), 2 how many to leave out at the head, 3 most members, 4 most bytes
-- Returns the members: as many as the bytes allow, and at least one if one is due.
-- Repeated: reads again; it writes nothing.
-- See reliability §10, protocol §9.1.
local left_out, room = tonumber(ARGV[2]), tonumber(ARGV[4])
local due = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1]) - left_out
local most = math.min(due, tonumber(ARGV[3]))
local members, n, step, largest = {}, 0, 1, 1
while n < most do
  local first = left_out + n
  local part = redis.call('ZRANGE', KEYS[1], first, first + math.min(step, most - n) - 1)
  for i = 1, #part do
    local size = #part[i]
    room = room - size
    if room < 0 and n > 0 then
      return members
    end
    n = n + 1
    members[n] = part[i]
    if size > largest then
      largest = size
    end
  end
  -- Twice as many each time, but not more than fit if they are as large as the largest so far.
  step = math.max(math.min(step * 2, 64, math.floor(room / largest)), 1)
end
return members
