#!lua flags=allow-oom
-- End a lease and give everything that it still holds back to the queues.
-- KEYS 1 registered incarnations (set), 2 liveness of this one, 3 claims of this one (hash),
--      then for each claimer its two lists and the queue of its last claim
-- ARGV 1 incarnation, 2 '1' = by the owner, who is alive, then for each claimer its name and the
--      text of its last claim
-- Answers how many jobs went back, -1 when the lease was gone already, -2 when the owner is alive,
-- -3 when a claim was made since the claimers were read (look again).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if ARGV[2] ~= '1' and redis.call('EXISTS', KEYS[2]) == 1 then
  return -2
end
local claimers = (#ARGV - 2) / 2
if redis.call('HLEN', KEYS[3]) ~= claimers then
  return -3
end
for i = 1, claimers do
  if redis.call('HGET', KEYS[3], ARGV[2 * i + 1]) ~= ARGV[2 * i + 2] then
    return -3
  end
end
local returned = 0
for i = 1, claimers do
  local queue = KEYS[3 * i + 3]
  for list = 3 * i + 1, 3 * i + 2 do
    local jobs = redis.call('LRANGE', KEYS[list], 0, -1)
    if #jobs > 0 then
      redis.call('RPUSH', queue, unpack(jobs))
      redis.call('DEL', KEYS[list])
      returned = returned + #jobs
    end
  end
end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('SREM', KEYS[1], ARGV[1])
return returned
