-- Whether a text contains what is looked for; '' is contained in each.
local function is_sought(text, needle)
  return needle == '' or string.find(text, needle, 1, true)
end
-- How many to read next: twice as many each time, but not more than fit if they are as large as the largest so far.
local function next_step(step, room, largest, most)
  return math.max(math.min(step * 2, most, math.floor(room / largest)), 1)
end
