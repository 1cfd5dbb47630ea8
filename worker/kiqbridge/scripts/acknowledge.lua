#!lua flags=allow-oom
-- Take finished jobs off in-flight lists, one by one, while others of the same lists still run.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3… in-flight lists
-- ARGV 1 incarnation, for each list its claimer and the number of its claim, then for each job the
--      number of its list in KEYS and its text
-- Answers how many were there, -1 when the lease is gone (fenced). A list that was filled by a later
-- claim is left alone: this call was delivered late.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local first, done = 2 * (#KEYS - 2) + 2, 0
local is_current = {}
for i = 3, #KEYS do
  local number = ARGV[2 * i - 3] .. ' '
  local last = redis.call('HGET', KEYS[2], ARGV[2 * i - 4])
  is_current[tostring(i)] = last and string.sub(last, 1, #number) == number
end
for i = first, #ARGV, 2 do
  if is_current[ARGV[i]] then
    done = done + redis.call('LREM', KEYS[tonumber(ARGV[i])], 1, ARGV[i + 1])
  end
end
return done
