<?php
// For PHPUnit: what Laravel's and Symfony's own tests need around them. AGENT_PORT is that of the agent, and SUITE_SOURCE
// the folder of Symfony's tests.
//
// Laravel's tests are made for a package that starts an application. Theirs is this one: a cache, with the agent in it.

namespace {
    require_once 'Symfony/Component/Lock/autoload.php';
    require_once 'Illuminate/Cache/autoload.php';
    require_once 'Illuminate/Config/autoload.php';
    require_once 'Illuminate/Container/autoload.php';
    require_once 'Illuminate/Redis/autoload.php';
    require_once 'Predis/autoload.php';

    error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
    spl_autoload_register(function ($class) {
        $file = getenv('SUITE_SOURCE').str_replace(['Symfony\\Component\\Lock\\Tests\\', '\\'], ['/', '/'], $class).'.php';
        if (str_starts_with($class, 'Symfony\\Component\\Lock\\Tests\\') && is_file($file)) {
            require $file;
        }
    });
}

namespace Illuminate\Foundation\Testing\Concerns {
    // Its FLUSHDB is refused by an agent. Each test releases its lock before it begins.
    trait InteractsWithRedis
    {
        public function setUpRedis() {}

        public function tearDownRedis() {}
    }
}

namespace Orchestra\Testbench {
    use Illuminate\Cache\CacheManager;
    use Illuminate\Config\Repository;
    use Illuminate\Container\Container;
    use Illuminate\Redis\RedisManager;
    use Illuminate\Support\Facades\Facade;

    class TestCase extends \PHPUnit\Framework\TestCase
    {
        protected $app;

        protected function setUp(): void
        {
            $this->app = new Container;
            Container::setInstance($this->app);
            $server = ['host' => '127.0.0.1', 'port' => getenv('AGENT_PORT'), 'name' => 'default'];
            $this->app->instance('config', new Repository([
                'cache' => ['prefix' => 'laravel', 'stores' => ['redis' => ['driver' => 'redis']]],
                'database' => ['redis' => ['client' => getenv('REDIS_CLIENT'), 'default' => $server]],
            ]));
            $this->app->singleton('redis', function ($app) {
                $config = $app['config']['database.redis'];

                return new RedisManager($app, $config['client'], $config);
            });
            $this->app->singleton('cache', fn ($app) => new CacheManager($app));
            Facade::clearResolvedInstances();
            Facade::setFacadeApplication($this->app);
        }
    }
}
