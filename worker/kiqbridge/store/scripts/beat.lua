#!lua flags=allow-oom
-- Give a sign of life for the own lease, keep or take one of the two watch slots, and answer what would
-- else have to be asked for again and again.
-- KEYS 1 registered incarnations (set), 2 signs of life (hash), 3 4 watch slots (string), 5 who leads the
-- pollers (string), 6 ends of jobs (zset), 7 cancelled batches (zset), 8 pauses (hash), 9... groups of keys whose
-- existence is asked for (any)
-- ARGV 1 incarnation, 2 milliseconds after which it may be called silent, 3 identity, 4 milliseconds for
-- which a watch slot is held; 0 = give it up, 5 6 texts of slots that are over by the caller's clock, 7 the number of
-- this beat, 8... how many keys each group has
-- A slot is `MILLISECONDS NUMBER IDENTITY`; the number grows with each renewal. Who holds none takes one
-- that is vacant. When the holder of the other slot has renewed it ten times, it also takes one that is held
-- for longer than its own would be, or whose holder is on the host of the other holder, if it is not itself.
-- Returns 0 when the lease is gone (fenced), else seconds and microseconds of the server's time, the number
-- of the own slot (0 = none), the texts of who leads the pollers and of both slots ('' = none); and, if any
-- of the keys from 6 on exists, 1 if there are ends, number and last of the cancelled batches, number of pauses, and of
-- each group how many of its keys exist.
-- Repeated: gives another sign.
-- See reliability §3.2, reliability §3.3.
-- include sign_of_life
local number = tonumber(ARGV[7])
local err, time, is_registered = give_sign(number)
if err then
  return err
end
-- Each fifth beat asks all the same: somebody may have deleted the set alone.
if (not is_registered or number % 5 == 0) and redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then
  redis.pcall('HDEL', KEYS[2], ARGV[1])
  return 0
end

-- MGET: a key of a foreign type is a slot that is vacant
local texts = redis.call('MGET', KEYS[3], KEYS[4], KEYS[5])
local first, second, who = texts[1] or '', texts[2] or '', ARGV[3]
local own = 0
if string.sub(first, -#who - 1) == ' ' .. who then
  own = 1
elseif string.sub(second, -#who - 1) == ' ' .. who then
  own = 2
end
if own ~= 1 and first == ARGV[5] then
  first = ''
end
if own ~= 2 and second == ARGV[6] then
  second = ''
end
-- What most processes do, most of the time, ends here: both slots are held by others. Whether another holder would
-- be better is asked at each fifth beat.
if own > 0 or first == '' or second == '' or number % 5 == 0 then
  local slots = {}
  for index, text in ipairs({ first, second }) do
    local ms, renewals, holder = string.match(text, '^(%d+) (%d+) (.*)$')
    slots[index] = { ms = tonumber(ms), renewals = tonumber(renewals), who = holder }
  end
  if ARGV[4] == '0' then
    if own > 0 then
      redis.call('DEL', KEYS[2 + own])
    end
    own = 0
  elseif own == 0 then
    local held_ms, host = tonumber(ARGV[4]), '^(.*):[^:]*:[^:]*$'
    own = not slots[1].who and 1 or not slots[2].who and 2 or 0
    for index = 1, 2 do
      local it, other = slots[index], slots[3 - index]
      if own == 0 and other.renewals >= 10 and other.renewals >= it.renewals then
        local its_host = string.match(it.who, host)
        local together = its_host == string.match(other.who, host) and its_host ~= string.match(who, host)
        if it.ms > held_ms or (it.ms == held_ms and together) then
          own = index
        end
      end
    end
  end
  if own > 0 then
    local renewals = slots[own].who == who and slots[own].renewals + 1 or 1
    redis.call('SET', KEYS[2 + own], string.format('%s %d %s', ARGV[4], renewals, who), 'PX', ARGV[4])
  end
end

local answer = { tonumber(time[1]), tonumber(time[2]), own, texts[3] or '', texts[1] or '', texts[2] or '' }
if redis.call('EXISTS', unpack(KEYS, 6)) == 0 then
  return answer
end
local cancelled, newest = redis.pcall('ZCARD', KEYS[7]), redis.pcall('ZRANGE', KEYS[7], -1, -1)
local pauses = redis.pcall('HLEN', KEYS[8])
answer[7] = redis.call('EXISTS', KEYS[6])
answer[8] = type(cancelled) == 'number' and cancelled .. ' ' .. (newest[1] or '') or ''
answer[9] = type(pauses) == 'number' and pauses or 0
local from = 9
for group = 8, #ARGV do
  local till = from + tonumber(ARGV[group]) - 1
  answer[#answer + 1] = till >= from and redis.call('EXISTS', unpack(KEYS, from, till)) or 0
  from = till + 1
end
return answer
