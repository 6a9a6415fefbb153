<?php
// phpredis, predis and symfony/lock, from Debian's packages. QUORLOCK_NODES names the nodes.

require_once __DIR__.'/report.php';
require_once 'Symfony/Component/Lock/autoload.php';
require_once 'Predis/autoload.php';

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

$urls = explode(',', getenv('QUORLOCK_NODES'));
$delayed = getenv('QUORLOCK_DELAYED');
$suffix = $delayed ? ' with a node in its restart delay' : '';

function combined(array $urls): LockFactory
{
    $stores = array_map(fn ($url) => new RedisStore(connect($url)), $urls);

    return new LockFactory(new CombinedStore($stores, new ConsensusStrategy()));
}

if (!$delayed) {
    version('phpredis', phpversion('redis'));
    $client = connect($urls[0]);
    check('phpredis: strings and hashes', function () use ($client) {
        $key = fresh();
        equal($client->ping(), true);
        equal($client->set($key, '1'), true);
        equal($client->incrBy($key, 41), 42);
        equal($client->get($key), '42');
        equal($client->get(fresh()), false);
        equal($client->del($key), 1);
        equal($client->hMSet($key, ['a' => '1', 'b' => '2']), true);
        equal($client->hGetAll($key), ['a' => '1', 'b' => '2']);
        $client->del($key);
    });
    check('phpredis: SET NX PX and a script', function () use ($client) {
        $key = fresh();
        equal($client->set($key, 't1', ['nx', 'px' => 30000]), true);
        equal($client->set($key, 't2', ['nx', 'px' => 30000]), false);
        between($client->pttl($key), 20000, 30000);
        equal($client->eval(UNLOCK, [$key, 't2'], 1), 0);
        $digest = $client->script('load', UNLOCK);
        equal($client->evalSha($digest, [$key, 't1'], 1), 1);
        equal($client->evalSha(str_repeat('0', 40), [], 0), false);
        equal(strpos($client->getLastError(), 'NOSCRIPT'), 0);
        $client->clearLastError();
    });
    check('phpredis: pipelining and transactions', function () use ($client, $urls) {
        $key = fresh();
        $pipeline = $client->multi(Redis::PIPELINE);
        for ($number = 0; $number < 100; $number++) {
            $pipeline->set($key, $number)->get($key);
        }
        $replies = $pipeline->exec();
        equal([$replies[0], $replies[1], $replies[199]], [true, '0', '99']);
        equal($client->multi()->set($key, '1')->incr($key)->exec(), [true, 2]);
        $client->watch($key);
        connect($urls[0])->incr($key);
        equal($client->multi()->set($key, '9')->exec(), false);
        equal($client->get($key), '3');
        $client->del($key);
    });
    check('phpredis: persistent connections, databases', function () use ($urls) {
        $key = fresh();
        for ($time = 0; $time < 3; $time++) {
            $client = new Redis();
            $client->pconnect(parse_url($urls[0], PHP_URL_HOST), parse_url($urls[0], PHP_URL_PORT), 2, 'one');
            $client->select(3);
            equal($client->incr($key), $time + 1);
            unset($client);
        }
        equal(connect($urls[0])->exists($key), 0);
    });

    version('predis', \Predis\Client::VERSION);
    check('predis: SET NX PX, a script, a transaction', function () use ($urls) {
        $key = fresh();
        $client = new \Predis\Client($urls[0]);
        equal((string) $client->set($key, 't1', 'PX', 30000, 'NX'), 'OK');
        equal($client->set($key, 't2', 'PX', 30000, 'NX'), null);
        equal([$client->eval(UNLOCK, 1, $key, 't2'), $client->eval(UNLOCK, 1, $key, 't1')], [0, 1]);
        $replies = $client->transaction()->set($key, '1')->incr($key)->execute();
        equal([(string) $replies[0], $replies[1]], ['OK', 2]);
        equal($client->pipeline(fn ($pipe) => $pipe->incr($key)->get($key)->del($key)), [3, '3', 1]);
    });

    version('symfony/lock', packaged('php-symfony-lock'));
    check('symfony/lock: through predis', function () use ($urls) {
        $name = fresh();
        $store = fn () => new RedisStore(new \Predis\Client($urls[0]));
        $lock = (new LockFactory($store()))->createLock($name, 30);
        equal($lock->acquire(), true);
        equal((new LockFactory($store()))->createLock($name, 30)->acquire(), false);
        $lock->refresh(60);
        between($lock->getRemainingLifetime(), 40, 60);
        $lock->release();
        equal($lock->isAcquired(), false);
    });
    $factory = new LockFactory(new RedisStore($client));
    $others = new LockFactory(new RedisStore(connect($urls[0])));
    check('symfony/lock: acquires, and a second owner is refused', function () use ($factory, $others) {
        $name = fresh();
        $lock = $factory->createLock($name, 30);
        equal($lock->acquire(), true);
        equal($others->createLock($name, 30)->acquire(), false);
        between($lock->getRemainingLifetime(), 20, 30);
        $lock->release();
        $next = $others->createLock($name, 30);
        equal($next->acquire(), true);
        $next->release();
    });
    check('symfony/lock: refreshes, expires, is lost', function () use ($factory, $others) {
        $name = fresh();
        $lock = $factory->createLock($name, 0.3, false);
        $lock->acquire();
        $lock->refresh(0.6);
        usleep(350000);
        equal($others->createLock($name)->acquire(), false);
        usleep(350000);
        $next = $others->createLock($name, 30);
        equal($next->acquire(), true);
        try {
            $lock->refresh(30);
            throw new \Exception('a lost lock was refreshed');
        } catch (LockConflictedException $expected) {
            equal($next->isAcquired(), true);
        }
        $next->release();
    });
    check('symfony/lock: readers share, a writer does not', function () use ($factory, $others) {
        $name = fresh();
        [$one, $two, $writer] = [$factory, $others, $others];
        $one = $one->createLock($name, 30);
        $two = $two->createLock($name, 30);
        $writer = $writer->createLock($name, 30);
        equal([$one->acquireRead(), $two->acquireRead()], [true, true]);
        equal($writer->acquire(), false);
        $one->release();
        $two->release();
        equal([$writer->acquire(), $one->acquireRead()], [true, false]);
        $writer->release();
    });
} else {
    version('symfony/lock', packaged('php-symfony-lock'));
}

check("symfony/lock: CombinedStore over all nodes$suffix", function () use ($urls, $delayed) {
    $name = fresh();
    $lock = combined($urls)->createLock($name, 30);
    equal($lock->acquire(), true);
    equal(combined($urls)->createLock($name, 30)->acquire(), false);
    $lock->refresh();
    $lock->release();
    foreach ($urls as $url) {
        equal($url === $delayed ? 0 : connect($url)->exists($name), 0);
    }
    $next = combined($urls)->createLock($name, 30);
    equal($next->acquire(), true);
    $next->release();
});

finish();
