-- Whether a text contains what is looked for, or one of several texts with a line feed between them; '' is contained
-- in each.
local function is_sought(text, needle)
  for each in string.gmatch(needle, '[^\n]+') do
    if string.find(text, each, 1, true) then
      return true
    end
  end
  return needle == ''
end
-- How many to read next: twice as many each time, but not more than fit if they are as large as the largest so far.
local function next_step(step, room, largest, most)
  return math.max(math.min(step * 2, most, math.floor(room / largest)), 1)
end
