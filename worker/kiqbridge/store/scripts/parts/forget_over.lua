-- Forget up to `most` guards that are over at `now`, by the server's clock; how many (reliability §11).
local function forget_over(guards, ends, now, most)
  local over = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, most)
  if over[1] then
    redis.call('HDEL', guards, unpack(over))
    redis.call('ZREM', ends, unpack(over))
  end
  return #over
end
