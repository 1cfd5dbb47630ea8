-- Write a sign of life of the incarnation ARGV[1] into the hash KEYS[2]: its number, the server's time,
-- for display only, and the milliseconds ARGV[2] after which it may be called silent (reliability §3.2).
-- Returns an error of the server, or nil, that time, and whether the incarnation is known to be registered: who takes a
-- lease away deletes its sign with it (reap_begin.lua), so one that was there is proof.
local function give_sign(number)
  local time = redis.call('TIME')
  local sign = string.format('%.0f %s.%06d %s', number, time[1], time[2], ARGV[2])
  -- pcall: with a foreign type here no process is found silent, and the lease holds all the same
  local reply = redis.pcall('HSET', KEYS[2], ARGV[1], sign)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    return reply
  end
  return nil, time, reply == 0
end
