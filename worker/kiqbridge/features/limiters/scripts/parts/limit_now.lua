-- The server's time in whole microseconds; such numbers are exact in a double until the year 2255.
local function limit_now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number)
  return string.format('%.0f', number)
end
