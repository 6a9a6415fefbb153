# One line for each check: `ok NAME` or `FAIL NAME: why`.

require 'securerandom'

$failures = 0

def check(name)
  yield
  puts "ok #{name}"
rescue StandardError => e
  $failures += 1
  line = e.backtrace.find { |frame| frame.start_with?($PROGRAM_NAME) }.to_s[/:(\d+)/, 1]
  puts "FAIL #{name}: #{e.class} #{e.message} (line #{line})".tr("\n", ' ')
end

def equal(found, expected)
  raise "expected #{expected.inspect}, found #{found.inspect}" unless found == expected
end

def between(found, low, high)
  raise "expected #{low}..#{high}, found #{found}" unless found.between?(low, high)
end

def fresh
  "interop:#{SecureRandom.uuid}"
end

def finish
  puts 'done'
  exit($failures.zero? ? 0 : 1)
end
