#!lua
-- Push jobs, at most so many of a name in each span of time; what is too much is left out, or scheduled for the
-- first span with room.
-- No allow-oom: with memory full a push is refused as a whole before anything is written.
-- KEYS 1 names of queues (set), 2 scheduled jobs (sorted set), 3 spans (hash: name → 'NUMBER COUNT'), 4 when they
--      are over (sorted set), then for each job its queue list
-- ARGV for each job: its name, jobs in a span, seconds of a span, drop or later, queue name, score ('' = at once),
--      text, the text for the schedule
-- Returns for each job '' when pushed, when it runs (as text) if it was put off, '-' if it was left out.
-- Repeated: pushed again, as far as there is room.
-- See reliability §14, protocol §5.5.
-- include wrong_type
-- include push
-- include forget_over
local MOST_FORGOTTEN = 10
local refused = wrong_type(KEYS[1], 'set') or wrong_type(KEYS[2], 'zset')
refused = refused or wrong_type(KEYS[3], 'hash') or wrong_type(KEYS[4], 'zset')
for i = 5, #KEYS do
  refused = refused or wrong_type(KEYS[i], 'list')
end
if refused then
  return refused
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local answers = {}
for i = 1, #KEYS - 4 do
  local base = 8 * i - 8
  local name, limit, length, over = ARGV[base + 1], tonumber(ARGV[base + 2]), tonumber(ARGV[base + 3]), ARGV[base + 4]
  local score = ARGV[base + 6]
  local wanted = math.max(now, tonumber(score) or now)
  local span = math.floor(wanted / length)
  local number, count = string.match(redis.call('HGET', KEYS[3], name) or '', '^(%d+) (%d+)$')
  number, count = tonumber(number), tonumber(count)
  if not number or number < span then
    number, count = span, 0
  end
  if count >= limit then
    number, count = number + 1, 0
  end
  if number > span and over == 'drop' then
    answers[i] = '-'
  else
    if number == span then
      push(KEYS[1], ARGV[base + 5], score == '' and KEYS[i + 4] or KEYS[2], score, ARGV[base + 7])
      answers[i] = ''
    else
      answers[i] = string.format('%.6f', number * length)
      redis.call('ZADD', KEYS[2], answers[i], ARGV[base + 8])
    end
    redis.call('ZADD', KEYS[4], math.ceil((number + 1) * length), name)
    redis.call('HSET', KEYS[3], name, string.format('%d %d', number, count + 1))
  end
end
forget_over(KEYS[3], KEYS[4], now, MOST_FORGOTTEN)
return answers
