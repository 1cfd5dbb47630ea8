#!lua flags=allow-oom
-- End a lease and give everything that it still holds back to the queues. When its owner died, each
-- job is counted as found orphaned, and one that was so too often goes to the suspects instead.
-- KEYS 1 registered incarnations (set), 2 liveness of this one, 3 claims of this one (hash), 4 queues
--      to be careful with (set), then for each claimer its two lists, the queue of its last claim and
--      that queue's suspects (list), then for each counted job its count
-- ARGV 1 incarnation, 2 '1' = by the owner, who is alive, 3 number of claimers, 4 seconds of care,
--      5 seconds that a count is kept, then for each claimer its name, the text of its last claim and
--      the name of that queue, then for each counted job the SHA-1 of its bytes and what becomes of it:
--      'queue', 'suspect', or 'known' = a suspect whose count stays as it is
-- The owner counts nothing.
-- Answers {jobs that went back, jobs that became suspects}, -1 when the lease was gone already, -2
-- when the owner is alive, -3 when a list or a claim changed since it was read (look again).
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local by_owner = ARGV[2] == '1'
if not by_owner and redis.call('EXISTS', KEYS[2]) == 1 then
  return -2
end
local claimers = tonumber(ARGV[3])
if redis.call('HLEN', KEYS[3]) ~= claimers then
  return -3
end
local counted, fate = 5 + 3 * claimers, {}
for i = counted + 1, #ARGV, 2 do
  fate[ARGV[i]] = ARGV[i + 1]
end
local held, found = {}, {}
for i = 1, claimers do
  if redis.call('HGET', KEYS[3], ARGV[3 * i + 3]) ~= ARGV[3 * i + 4] then
    return -3
  end
  for list = 4 * i + 1, 4 * i + 2 do
    local back, suspects = {}, {}
    for _, job in ipairs(redis.call('LRANGE', KEYS[list], 0, -1)) do
      local sha = not by_owner and redis.sha1hex(job)
      local decided = by_owner and 'queue' or fate[sha]
      if not decided then
        return -3
      end
      if sha then
        found[sha] = true
      end
      if decided == 'queue' then
        table.insert(back, job)
      else
        table.insert(suspects, 1, job)  -- oldest first
      end
    end
    held[list] = {back, suspects}
  end
end
local returned, suspected = 0, 0
for i = 1, claimers do
  for list = 4 * i + 1, 4 * i + 2 do
    local back, suspects = unpack(held[list])
    if #back > 0 then
      redis.call('RPUSH', KEYS[4 * i + 3], unpack(back))
    end
    if #suspects > 0 then
      -- Behind those that wait there: one that ends its parent as well must not be the next again.
      redis.call('LPUSH', KEYS[4 * i + 4], unpack(suspects))
    end
    redis.call('DEL', KEYS[list])
    returned, suspected = returned + #back, suspected + #suspects
    if not by_owner and #back + #suspects > 0 then
      -- pcall here and below: what is left to do must not depend on a key of a foreign type
      redis.pcall('SADD', KEYS[4], ARGV[3 * i + 5])
      redis.pcall('EXPIRE', KEYS[4], ARGV[4])
    end
  end
end
for i = counted + 1, #ARGV, 2 do
  if found[ARGV[i]] then  -- not what a frozen owner has settled since it was read
    local count = KEYS[4 + 4 * claimers + (i - counted + 1) / 2]
    if ARGV[i + 1] ~= 'known' then
      redis.pcall('INCR', count)
    end
    redis.pcall('EXPIRE', count, ARGV[5])
  end
end
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('SREM', KEYS[1], ARGV[1])
return {returned, suspected}
