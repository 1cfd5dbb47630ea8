#!lua flags=allow-oom
-- Take reports for Step Functions that are due: no other process takes them for a while, in which the caller
-- sends them and removes each.
-- KEYS 1 sorted set of reports, score = when it is due next
-- ARGV 1 most reports to take, 2 seconds until they are due again
-- What is due later than that was taken before the server's clock was set back: it is due.
-- Returns the time of the server (epoch seconds, as text), then the reports.
-- Repeated: takes others; those of a call whose reply was lost are due again after that time.
-- See reliability §14.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local due = redis.call('ZRANGE', KEYS[1], '-inf', string.format('%.6f', now), 'BYSCORE', 'LIMIT', 0, ARGV[1])
local later = string.format('(%.6f', now + ARGV[2])
for _, each in ipairs(redis.call('ZRANGE', KEYS[1], later, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[1] - #due)) do
  due[#due + 1] = each
end
local answer = {string.format('%.6f', now)}
for i = 1, #due do
  redis.call('ZADD', KEYS[1], string.format('%.6f', now + ARGV[2]), due[i])
  answer[#answer + 1] = due[i]
end
return answer
