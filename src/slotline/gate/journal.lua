-- The journal of a cluster, on the server: every change is one call of this script, and so happens at once or not.
--
-- KEYS  the names of `gate/names.py`, in their order; all have one hash tag, so a Redis Cluster keeps them on one shard
-- ARGV  what to do, who does it, the length of a lease in microseconds, and what else that takes
--
-- Times are the server's own, in microseconds since 1970: no replica's clock matters. Numbers stay below 2^53, where
-- Lua's doubles are exact. What is returned begins with OK, or with the reason why nothing was done:
--
--   LOST   the replica has no lease. If the journal was born when it is told to have been, that has ended, and
--          everything the replica had is others' by now; if not, the journal that it knew is gone
--   RULES  replicas that follow other rules hold the line; they follow the rules that are told
local JOURNAL, META, LEASES, WRITTEN, PICTURE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local verb, replica, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local KEPT = 100  -- leases after which everything is forgotten, if nobody comes any more

local function whole(number)
  return string.format('%.0f', number)
end

local function field(name)
  return tonumber(redis.call('HGET', META, name) or '0')
end

-- The moment of this call. A clock that is set back stands still in the journal until it has caught up.
local clock = redis.call('TIME')
local now = math.max(tonumber(clock[1]) * 1000000 + tonumber(clock[2]), field('moment'))

local function write(who, count, commands)
  local number = redis.call('HINCRBY', META, 'next', count) - count
  redis.call('HSET', META, 'moment', whole(now))
  redis.call('XADD', JOURNAL, '*', 'number', whole(number), 'moment', whole(now), 'replica', who, 'commands', commands)
  return number
end

local function is_member(who)
  return redis.call('ZSCORE', LEASES, who) ~= false
end

local function lost()
  return {'LOST', redis.call('HGET', META, 'born') or '0'}
end

local function strike(who)
  redis.call('ZREM', LEASES, who)
  redis.call('HDEL', WRITTEN, who)
end

-- Whose lease has ended is gone, and with it all that it had.
local function purge()
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', whole(now))) do
    strike(who)
    write(who, 1, '')
  end
end

local function keep()
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, whole(KEPT * lease / 1000))
  end
end

-- Others who remember more than the server does may be about to come, and to say what they hold: until they have had
-- the time to, no slot is given out. They look for the server several times in this time.
local function settle(time)
  redis.call('HSET', META, 'settled', whole(now + time))
end

-- What a server has from before it was started, or from another one whose place it took, may lack the last words that
-- were written there. Who holds what and who waits is known better by those who do, so nothing of it is believed.
local server = redis.call('INFO', 'server')
local function doubt()
  local run = string.match(server, 'run_id:(%w+)')
  local known = redis.call('HGET', META, 'run')
  if known ~= run then
    redis.call('DEL', unpack(KEYS))
    redis.call('HSET', META, 'run', run)
    if known then
      settle(lease / 2)
    end
    keep()
  end
end

-- A server that nobody could reach for long has no reason to think ill of anybody: whoever had a lease gets a new one.
local function forgive()
  if now - field('heard') > 2 * lease / 3 then
    for _, who in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
      redis.call('ZADD', LEASES, whole(now + lease), who)
    end
  end
end

-- enter RULES FLOOR OLD: a replica begins. Where it was another one before, that one ends by the word of the new one, or
-- with its lease, which is as long. `FLOOR`: it has seen numbers below this one; more than 0: it remembers a journal.
local function enter()
  local rules, floor, old = ARGV[4], tonumber(ARGV[5]), ARGV[6]
  redis.call('ZADD', LEASES, 'XX', whole(now + lease), old)
  purge()
  local theirs = redis.call('HGET', META, 'rules')
  if theirs and theirs ~= rules then
    if redis.call('ZCARD', LEASES) > 0 then
      return {'RULES', theirs}
    end
    redis.call('DEL', JOURNAL, PICTURE, WRITTEN)
    theirs = nil
  end
  if not theirs then
    local first = whole(math.max(floor, now, field('next')))
    redis.call('HSET', META, 'rules', rules, 'next', first, 'born', first)
    if floor > 0 then
      settle(lease / 2)
    elseif tonumber(string.match(server, 'uptime_in_seconds:(%d+)')) * 1000000 <= lease and field('settled') == 0 then
      settle(math.min(lease / 2, 1000000))  -- it may have had a journal a moment ago, and whoever knows it looks for it
    end
  end
  redis.call('HSET', META, 'heard', whole(now))
  redis.call('ZADD', LEASES, whole(now + lease), replica)
  keep()
  return {'OK', whole(now), whole(math.max(0, field('settled') - now)), whole(field('born'))}
end

-- beat: the replica is alive. Tells when the first of all leases ends.
local function beat()
  if not is_member(replica) then
    return lost()
  end
  forgive()
  redis.call('HSET', META, 'heard', whole(now))
  redis.call('ZADD', LEASES, whole(now + lease), replica)
  purge()
  keep()
  local first = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')
  return {'OK', whole(now), whole(field('next')), whole(tonumber(first[2]) - now)}
end

-- write BATCH COUNT COMMANDS: one entry. A batch that is there already is not written again.
local function write_batch()
  if not is_member(replica) then
    return lost()
  end
  local batch = tonumber(ARGV[4])
  if batch > tonumber(redis.call('HGET', WRITTEN, replica) or '0') then
    redis.call('HSET', WRITTEN, replica, whole(batch))
    write(replica, tonumber(ARGV[5]), ARGV[6])
  end
  return {'OK'}
end

-- leave: the replica ends by itself.
local function leave()
  if is_member(replica) then
    strike(replica)
    write(replica, 1, '')
  end
  return {'OK'}
end

-- draw NEXT ID DATA: a picture of the state below the number NEXT, after the entry ID. What stood before the picture
-- that it replaces is needed by nobody who has read on to that one.
local function draw()
  local next = tonumber(ARGV[4])
  local before = redis.call('HMGET', PICTURE, 'next', 'id')
  if is_member(replica) and next > tonumber(before[1] or '0') then
    if before[2] then
      redis.call('XTRIM', JOURNAL, 'MINID', before[2])
    end
    redis.call('HSET', PICTURE, 'next', whole(next), 'id', ARGV[5], 'data', ARGV[6])
  end
  return {'OK'}
end

doubt()
local verbs = {enter = enter, beat = beat, write = write_batch, leave = leave, draw = draw}
return verbs[verb]()
