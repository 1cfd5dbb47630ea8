#!lua flags=allow-oom
-- One leader at a time: take, renew or release.
-- KEYS 1 who leads (string, `NUMBER IDENTITY`; the number grows with each renewal)
-- ARGV 1 the caller, 2 milliseconds of leadership; 0 = release, 3 text of a lead that is over by the caller's clock
-- Returns 1 when the caller leads now, the text of another one's lead, else 0.
-- Repeated: the leader renews its time; one that has released gets 0.
-- See reliability §8, reliability §10.
local text = redis.call('GET', KEYS[1])
local number, leader = string.match(text or '', '^(%d+) (.*)$')
if text and leader ~= ARGV[1] and text ~= ARGV[3] then
  return text
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
number = leader == ARGV[1] and number + 1 or 1
redis.call('SET', KEYS[1], string.format('%d %s', number, ARGV[1]), 'PX', ARGV[2])
return 1
