#!lua flags=allow-oom
-- Remove finished jobs from in-flight lists, one by one, while others of the same lists still run.
-- KEYS 1 registered incarnations (set), 2 claims of this one (hash), 3… in-flight lists
-- ARGV 1 incarnation, for each list its claimer and the number of its claim, then for each job the
--      number of its list in KEYS and its text; behind the number a blank and how many of that text
--      stay at least, where the list holds twins
-- Returns how many were there, -1 when the lease is gone (fenced). A list that was filled by a later
-- claim is left alone: this call was delivered late.
-- Repeated: a job that is removed stays removed; others of the list are not touched, twins of it neither.
-- See reliability §2.
-- include fence
-- include current_claim
local first, done = 2 * (#KEYS - 2) + 2, 0
local current = {}
for i = 3, #KEYS do
  current[tostring(i)] = is_current(ARGV[2 * i - 4], ARGV[2 * i - 3])
end
for i = first, #ARGV, 2 do
  local list, staying, count = ARGV[i], nil, 1
  if current[list] == nil then
    list, staying = string.match(list, '^(%d+) (%d+)$')
  end
  if list and current[list] then
    local key = KEYS[tonumber(list)]
    if staying then
      count = #redis.call('LPOS', key, ARGV[i + 1], 'COUNT', 0) - tonumber(staying)
    end
    if count > 0 then
      done = done + redis.call('LREM', key, count, ARGV[i + 1])
    end
  end
end
return done
