<?php
// One line for each check: `ok NAME` or `FAIL NAME: why`.

const UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

// Libraries tell of deprecated calls, and of nodes that give no locks.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
$failures = 0;

function check(string $name, callable $run): void
{
    global $failures;
    try {
        $run();
        echo "ok $name\n";
    } catch (\Throwable $error) {
        $failures++;
        $why = str_replace("\n", ' ', get_class($error).', '.$error->getMessage());
        $frame = array_filter($error->getTrace(), fn ($frame) => ($frame['file'] ?? '') === realpath($_SERVER['SCRIPT_FILENAME']));
        echo "FAIL $name: $why (line ".(reset($frame)['line'] ?? $error->getLine()).")\n";
    }
}

function equal($found, $expected): void
{
    if ($found !== $expected) {
        throw new \Exception('expected '.json_encode($expected).', found '.json_encode($found));
    }
}

function between($found, $low, $high): void
{
    if ($found < $low || $found > $high) {
        throw new \Exception("expected $low..$high, found $found");
    }
}

function fresh(): string
{
    return 'interop:'.bin2hex(random_bytes(8));
}

function connect(string $url): Redis
{
    $client = new Redis();
    $client->connect(parse_url($url, PHP_URL_HOST), parse_url($url, PHP_URL_PORT), 2);

    return $client;
}

// Debian writes its own revision behind it.
function version(string $client, string $version): void
{
    echo "version $client PHP ".preg_replace('/[^0-9.].*/', '', $version)."\n";
}

function packaged(string $package): string
{
    return trim(shell_exec("dpkg-query --showformat='\${source:Upstream-Version}' --show $package") ?? '');
}

function finish(): void
{
    global $failures;
    echo "done\n";
    exit($failures ? 1 : 0);
}
