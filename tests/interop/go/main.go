// redsync on go-redis, rueidislock on rueidis, against the nodes that QUORLOCK_NODES names, and the checks of the
// other files here.
// Prints `ok NAME` or `FAIL NAME: why` for each check.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	ctx  = context.Background()
	urls = strings.Split(os.Getenv("QUORLOCK_NODES"), ",")
	// A node in its restart delay, which gives no locks.
	delayed  = os.Getenv("QUORLOCK_DELAYED")
	failures = 0
)

// version says which version of a module is checked.
func version(client, module string) {
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			fmt.Printf("version %s Go %s\n", client, strings.TrimPrefix(dependency.Version, "v"))
		}
	}
}

func check(name string, run func() error) {
	if err := run(); err != nil {
		failures++
		fmt.Printf("FAIL %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("ok %s\n", name)
}

func client(url string) *redis.Client {
	options, err := redis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	return redis.NewClient(options)
}

func locker() *redsync.Redsync {
	pools := make([]syncredis.Pool, 0, len(urls))
	for _, url := range urls {
		pools = append(pools, goredis.NewPool(client(url)))
	}
	return redsync.New(pools...)
}

func fresh(name string) string {
	return fmt.Sprintf("interop:go:%s:%d", name, os.Getpid())
}

func refuses() error {
	first := locker().NewMutex(fresh("refused"), redsync.WithTries(1))
	if err := first.Lock(); err != nil {
		return err
	}
	second := locker().NewMutex(fresh("refused"), redsync.WithTries(1))
	if err := second.Lock(); err == nil {
		return errors.New("a second owner got the lock")
	}
	_, err := first.Unlock()
	return err
}

func extends() error {
	mutex := locker().NewMutex(fresh("extend"), redsync.WithExpiry(3*time.Second))
	if err := mutex.Lock(); err != nil {
		return err
	}
	before := mutex.Until()
	time.Sleep(50 * time.Millisecond)
	if ok, err := mutex.Extend(); !ok || err != nil {
		return fmt.Errorf("extended %v: %w", ok, err)
	}
	if !mutex.Until().After(before) {
		return errors.New("the extension moved nothing")
	}
	_, err := mutex.Unlock()
	return err
}

func releases() error {
	mutex := locker().NewMutex(fresh("release"))
	if err := mutex.Lock(); err != nil {
		return err
	}
	if ok, err := mutex.Unlock(); !ok || err != nil {
		return fmt.Errorf("released %v: %w", ok, err)
	}
	for _, url := range urls {
		if url == delayed {
			continue
		}
		if count, err := client(url).Exists(ctx, fresh("release")).Result(); count != 0 || err != nil {
			return fmt.Errorf("%d keys are left on %s: %w", count, url, err)
		}
	}
	return nil
}

func expires() error {
	short := redsync.WithExpiry(400 * time.Millisecond)
	if err := locker().NewMutex(fresh("expire"), short).Lock(); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	mutex := locker().NewMutex(fresh("expire"), redsync.WithTries(1))
	if err := mutex.Lock(); err != nil {
		return err
	}
	_, err := mutex.Unlock()
	return err
}

// holdAlone has callers take a lock three times each, and fails where two of them held it at once.
func holdAlone(callers int, take func(caller int) (release func() error, err error)) error {
	type interval struct{ start, end time.Time }
	var guard sync.Mutex
	var group sync.WaitGroup
	var held []interval
	problems := make(chan error, callers)
	for caller := 0; caller < callers; caller++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 3; round++ {
				release, err := take(caller)
				if err == nil {
					start := time.Now()
					time.Sleep(2 * time.Millisecond)
					guard.Lock()
					held = append(held, interval{start, time.Now()})
					guard.Unlock()
					err = release()
				}
				if err != nil {
					problems <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(problems)
	for err := range problems {
		return err
	}
	sort.Slice(held, func(a, b int) bool { return held[a].start.Before(held[b].start) })
	for index := 1; index < len(held); index++ {
		if held[index].start.Before(held[index-1].end) {
			return errors.New("two callers held the lock at once")
		}
	}
	if len(held) != 3*callers {
		return fmt.Errorf("%d of %d locks were got", len(held), 3*callers)
	}
	return nil
}

func excludes() error {
	return holdAlone(10, func(int) (func() error, error) {
		mutex := locker().NewMutex(fresh("ten"), redsync.WithTries(3000),
			redsync.WithRetryDelay(10*time.Millisecond))
		unlock := func() error {
			_, err := mutex.Unlock()
			return err
		}
		return unlock, mutex.Lock()
	})
}

func connects(protocol int) error {
	options, err := redis.ParseURL(urls[0])
	if err != nil {
		return err
	}
	options.Protocol = protocol
	return redis.NewClient(options).Ping(ctx).Err()
}

// TxPipelined is all or nothing, and a watched key that changes stops it.
func transacts(protocol int) error {
	options, err := redis.ParseURL(urls[0])
	if err != nil {
		return err
	}
	options.Protocol = protocol
	client := redis.NewClient(options)
	key := fresh("transaction")
	defer client.Del(ctx, key)
	replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key, "1", 30*time.Second)
		pipe.Incr(ctx, key)
		return nil
	})
	if err != nil || len(replies) != 2 {
		return fmt.Errorf("%v, %v", replies, err)
	}
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key, "9", 30*time.Second)
		pipe.Do(ctx, "NOSUCHCOMMAND")
		return nil
	})
	if err == nil || client.Get(ctx, key).Val() != "2" {
		return fmt.Errorf("half of a transaction was executed: %v", err)
	}
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		client.Incr(ctx, key)
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key, "9", 30*time.Second)
			return nil
		})
		return err
	}, key)
	if !errors.Is(err, redis.TxFailedErr) || client.Get(ctx, key).Val() != "3" {
		return fmt.Errorf("a watched key had changed: %v", err)
	}
	return nil
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agents" {
		agentChecks()
	} else {
		nodeChecks()
	}
	fmt.Println("done")
	if failures > 0 {
		os.Exit(1)
	}
}

func nodeChecks() {
	if delayed == "" {
		drivers()
		redislockChecks()
		asynqChecks()
	}
	suffix := ""
	if delayed != "" {
		suffix = " with a node in its restart delay"
	}
	version("redsync", "github.com/go-redsync/redsync/v4")
	check("redsync: acquires, and a second owner is refused"+suffix, refuses)
	check("redsync: extends"+suffix, extends)
	check("redsync: releases on every node"+suffix, releases)
	check("redsync: expires"+suffix, expires)
	check("redsync: ten callers, no overlap"+suffix, excludes)
	if delayed == "" {
		rightsChecks()
		version("rueidis", "github.com/redis/rueidis")
		check("rueidis: a cached value is given up when it changes", func() error { return caches() })
		check("rueidis: the same with OPTOUT", func() error { return caches("OPTOUT") })
		check("rueidis: the same with BCAST", func() error { return caches("BCAST", "PREFIX", "interop:") })
		version("rueidislock", "github.com/redis/rueidis")
		check("rueidislock: ten callers, no overlap", excludesCaching)
		check("rueidislock: who waits is woken", wakesCaching)
	}
}

func drivers() {
	version("go-redis", "github.com/redis/go-redis/v9")
	check("go-redis: connects with RESP2", func() error { return connects(2) })
	check("go-redis: connects with RESP3", func() error { return connects(3) })
	check("go-redis: TxPipelined with RESP2", func() error { return transacts(2) })
	check("go-redis: TxPipelined with RESP3", func() error { return transacts(3) })
}
