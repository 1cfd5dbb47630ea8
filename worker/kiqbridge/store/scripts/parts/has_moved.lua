-- Whether a queue has moved since the caller has read where queues lie. Keys from `key` on: routes, and where queues came
-- from (hashes); arguments from `first` on: for each queue its name and what the caller knows of both, '' = nothing.
local function has_moved(key, first)
  for i = first, #ARGV, 3 do
    if (redis.call('HGET', KEYS[key], ARGV[i]) or '') ~= ARGV[i + 1]
      or (redis.call('HGET', KEYS[key + 1], ARGV[i]) or '') ~= ARGV[i + 2] then
      return true
    end
  end
  return false
end
