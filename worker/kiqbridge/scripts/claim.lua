#!lua flags=allow-oom
-- Claim number s of one claimer: acknowledge chunk s-1 and take the next one from one queue.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3 list to fill (s mod 2),
--      4 list to acknowledge, 5 paused queues (set), 6 queues to be careful with (set), 7 how
--      many jobs to claim alone (hash), 8… queue lists in the order of this draw
-- ARGV 1 incarnation, 2 claimer, 3 s, 4 most jobs to take, 5… queue names as in KEYS
-- Answers {queue, newest job, …, oldest job}, {''} if there was none, -1 when the lease is gone
-- (fenced), -2 when s is neither the stored number nor its successor (stale). Asked again for the
-- stored number it answers the same chunk again: a reply was lost.
-- Without queues it only acknowledges.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local sequence = tonumber(ARGV[3])
local stored, queue = 0, ''
local last = redis.call('HGET', KEYS[2], ARGV[2])
if last then
  local gap = string.find(last, ' ', 1, true)
  stored, queue = tonumber(string.sub(last, 1, gap - 1)), string.sub(last, gap + 1)
end
if stored == sequence then
  return {queue, unpack(redis.call('LRANGE', KEYS[3], 0, -1))}
end
if stored + 1 ~= sequence then
  return -2
end
local reply = {''}
for i = 8, #KEYS do
  -- pcall: one key of a foreign type must not keep the other queues from being served
  local jobs = redis.pcall('LRANGE', KEYS[i], '-' .. ARGV[4], -1)
  if #jobs > 0 and redis.call('SISMEMBER', KEYS[5], ARGV[i - 3]) == 0 then
    -- One job at a time after a recovery: what kills its process must not take neighbours along.
    -- For a minute, and however late for those that came back, which lie at this end of the queue.
    -- pcall again: here it is no reason to claim nothing
    if redis.call('EXISTS', KEYS[6], KEYS[7]) > 0 then
      local alone = tonumber(redis.pcall('HGET', KEYS[7], KEYS[i]))
      if alone or redis.pcall('SISMEMBER', KEYS[6], ARGV[i - 3]) == 1 then
        jobs = {jobs[#jobs]}
      end
      if alone then
        -- Others, such as Ruby, take jobs without counting: never more than there are.
        local left = math.min(alone, redis.call('LLEN', KEYS[i])) - 1
        if left > 0 then
          redis.call('HSET', KEYS[7], KEYS[i], left)
        else
          redis.call('HDEL', KEYS[7], KEYS[i])
        end
      end
    end
    redis.call('RPUSH', KEYS[3], unpack(jobs))
    redis.call('LTRIM', KEYS[i], 0, -(#jobs + 1))
    reply = {ARGV[i - 3], unpack(jobs)}
    break
  end
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3] .. ' ' .. reply[1])
redis.call('DEL', KEYS[4])
return reply
