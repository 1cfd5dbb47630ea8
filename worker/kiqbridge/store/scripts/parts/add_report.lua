-- Add what is to become known of a job that has ended: to the ends of jobs under flow control, or to the reports
-- for Step Functions (wire/flow_mark.py). ZADD: a second time changes nothing.
local function add_report(tasks, flow, text)
  redis.call('ZADD', string.sub(text, 1, 8) == '{"flow":' and flow or tasks, 0, text)
end
