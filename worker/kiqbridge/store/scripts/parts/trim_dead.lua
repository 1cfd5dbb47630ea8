-- Keep the dead set within its bounds (protocol §8.5): remove what died up to the score `cutoff`, then all
-- but the last `most` - 1.
local function trim_dead(key, cutoff, most)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', cutoff)
  redis.call('ZREMRANGEBYRANK', key, 0, '-' .. most)
end
