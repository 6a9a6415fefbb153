<?php
// Lock libraries of PHP on one server, which is an agent. QUORLOCK_AGENTS names two agents of the same nodes: the first
// owner asks one of them, the second owner the other one.
//
// What Laravel's cache's lock sends, without Laravel, is: SET with EX and NX, a script that compares and deletes, and GET for
// the owner. Its own tests are run as agent-suites.

require_once __DIR__.'/report.php';
require_once 'Symfony/Component/Lock/autoload.php';
require_once 'Predis/autoload.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

const RELEASE = <<<'LUA'
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end
LUA;

$agents = explode(',', getenv('QUORLOCK_AGENTS'));

/** A lock as Laravel's RedisLock, with phpredis or predis. */
final class CacheLock
{
    private string $owner;

    public function __construct(private $client, private string $name, private int $seconds)
    {
        $this->owner = bin2hex(random_bytes(8));
    }

    public function acquire(): bool
    {
        return $this->client instanceof Redis
            ? $this->sent($this->client->set($this->name, $this->owner, ['EX' => $this->seconds, 'NX']))
            : null !== $this->client->set($this->name, $this->owner, 'EX', $this->seconds, 'NX');
    }

    public function release(): bool
    {
        return 1 === ($this->client instanceof Redis
            ? $this->sent($this->client->eval(RELEASE, [$this->name, $this->owner], 1))
            : $this->client->eval(RELEASE, 1, $this->name, $this->owner));
    }

    public function isOwned(): bool
    {
        return $this->client->get($this->name) === $this->owner;
    }

    /** phpredis answers false to an error, and keeps its text. */
    private function sent($reply)
    {
        $error = $this->client->getLastError();
        $this->client->clearLastError();
        if (null !== $error) {
            throw new \Exception($error);
        }

        return $reply;
    }
}

/** Asks again while somebody else has the lock, and where the agent could not reach a majority. */
function patiently(callable $call): void
{
    $end = hrtime(true) + 60e9;
    while (true) {
        try {
            if ($call()) {
                return;
            }
        } catch (\Exception $error) {
            if (!preg_match('/NOQUORUM|TRYAGAIN/', $error->getMessage())) {
                throw $error;
            }
        }
        if (hrtime(true) > $end) {
            throw new \Exception('no lock within 60 s');
        }
        usleep(random_int(5000, 25000));
    }
}

/** Writes when the lock was held. */
function takeThrice($client, string $name, $theirs): void
{
    for ($round = 0; $round < 3; $round++) {
        $lock = new CacheLock($client, $name, 4);
        patiently(fn () => $lock->acquire());
        $start = hrtime(true);
        usleep(2000);
        fwrite($theirs, $start.' '.hrtime(true)."\n");
        patiently(fn () => $lock->release());
    }
}

/** Eight processes, each of which takes the lock three times; what they say is when they had it. */
function excludes(array $agents, callable $connect): void
{
    $name = fresh();
    $pipes = [];
    for ($caller = 0; $caller < 8; $caller++) {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (0 === pcntl_fork()) {
            try {
                takeThrice($connect($agents[$caller % 2]), $name, $theirs);
            } catch (\Throwable $error) {
                fwrite(STDERR, $error->getMessage()."\n");
            } finally {
                // It ends here, with nothing that it shares with its parent.
                posix_kill(getmypid(), SIGKILL);
            }
        }
        fclose($theirs);
        $pipes[] = $ours;
    }
    $held = [];
    foreach ($pipes as $pipe) {
        while ($line = fgets($pipe)) {
            $held[] = array_map('intval', explode(' ', $line));
        }
        pcntl_wait($status);
    }
    sort($held);
    $overlaps = 0;
    for ($index = 1; $index < count($held); $index++) {
        $overlaps += $held[$index][0] < $held[$index - 1][1] ? 1 : 0;
    }
    equal([count($held), $overlaps], [24, 0]);
}

function cacheLocks(string $client, array $agents, callable $connect): void
{
    $client .= ' through an agent: a lock as Laravel\'s';
    check("$client, acquires, and a second owner is refused", function () use ($agents, $connect) {
        $name = fresh();
        $lock = new CacheLock($connect($agents[0]), $name, 4);
        $other = new CacheLock($connect($agents[1]), $name, 4);
        equal([$lock->acquire(), $other->acquire()], [true, false]);
        equal([$lock->isOwned(), $other->isOwned(), $other->release()], [true, false, false]);
        equal([$lock->release(), $other->acquire(), $other->release()], [true, true, true]);
    });
    check("$client, expires, and a lost lock is not released", function () use ($agents, $connect) {
        $name = fresh();
        $lock = new CacheLock($connect($agents[0]), $name, 1);
        $other = new CacheLock($connect($agents[1]), $name, 4);
        $lock->acquire();
        $start = hrtime(true);
        patiently(fn () => $other->acquire());
        between(hrtime(true) - $start, 1e9, 10e9);
        equal([$lock->release(), $other->isOwned(), $other->release()], [false, true, true]);
    });
    check("$client, eight callers, no overlap", fn () => excludes($agents, $connect));
}

version('phpredis through an agent', phpversion('redis'));
cacheLocks('phpredis', $agents, fn ($url) => connect($url));
version('predis through an agent', \Predis\Client::VERSION);
cacheLocks('predis', $agents, fn ($url) => new \Predis\Client($url));

// It keeps readers and writers in a sorted set, and hides what the server answered.
version('symfony/lock through an agent', packaged('php-symfony-lock'));
check('symfony/lock through an agent: its sorted set is refused by name', function () use ($agents) {
    $lock = (new LockFactory(new RedisStore(new \Predis\Client($agents[0]))))->createLock(fresh(), 4);
    try {
        $lock->acquire();
    } catch (\Exception $error) {
        for ($reason = $error; $reason->getPrevious(); $reason = $reason->getPrevious()) {
        }
        equal(substr($reason->getMessage(), 0, 9), 'NOTALOCK ');

        return;
    }
    throw new \Exception('it is not refused');
});

finish();
