#!lua flags=allow-oom
-- End the reap of an incarnation, once all of its lists are gone.
-- KEYS 1 incarnations being reaped (set), 2 claims of this one (hash), 3… all of its lists
-- ARGV 1 incarnation, 2 number of its claimers
-- Returns 1, 0 when it was ended already, -3 when a list or a claimer is left (look again).
-- Repeated: 0.
-- See reliability §3.4.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2]) then
  return -3
end
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return -3
  end
end
redis.call('DEL', KEYS[2])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
