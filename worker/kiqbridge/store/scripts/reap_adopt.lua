#!lua flags=allow-oom
-- Take in-flight lists that no registration names for those of an incarnation that is being reaped.
-- KEYS 1 registered incarnations (set), 2 those being reaped (set), 3 claims of this one (hash), then
--      for each claimer its two lists
-- ARGV 1 incarnation, then the name of each claimer
-- Returns 1, 0 when it is registered after all.
-- Where the claim is forgotten too, the jobs' own texts say to which queue they go.
-- Repeated: 1, and what is known of the claims stays.
-- See reliability §3.5.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
  return 0
end
for i = 2, #ARGV do
  if not string.find(redis.call('HGET', KEYS[3], ARGV[i]) or '', ' .') then
    local job = redis.call('LINDEX', KEYS[2 * i], 0) or redis.call('LINDEX', KEYS[2 * i + 1], 0) or ''
    local queue = string.match(job, '"queue"%s*:%s*"([^"\\]+)"') or 'default'
    redis.call('HSET', KEYS[3], ARGV[i], '0 ' .. queue)
  end
end
redis.call('SADD', KEYS[2], ARGV[1])
return 1
