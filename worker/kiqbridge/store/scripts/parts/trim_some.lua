-- Keep the dead set within its bounds as `trim_dead`, but remove no more members than `most_removed`: whoever
-- has set wider bounds elsewhere loses no more by an action here than it adds, and the server is not held up.
local function trim_some(key, cutoff, most, most_removed)
  local expired = redis.call('ZCOUNT', key, '-inf', cutoff)
  local too_many = redis.call('ZCARD', key) - most + 1
  local removed = math.min(math.max(expired, too_many), most_removed)
  if removed > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, removed - 1)
  end
end
