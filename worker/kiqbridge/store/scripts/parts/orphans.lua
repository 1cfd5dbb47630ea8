-- Count a job as found orphaned (unless `is_new` is false: only keep its count for longer), and have a
-- queue's jobs claimed one by one for a while (reliability §8).
-- pcall: a key of a foreign type must keep no job in flight
local function count_orphan(key, seconds, is_new)
  if is_new then
    redis.pcall('INCR', key)
  end
  redis.pcall('EXPIRE', key, seconds)
end
local function be_careful(key, queue, seconds)
  redis.pcall('SADD', key, queue)
  redis.pcall('EXPIRE', key, seconds)
end
