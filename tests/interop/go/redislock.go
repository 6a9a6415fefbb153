package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/bsm/redislock"
)

// bsm/redislock on one node: multi-key scripts with MSETNX, MGET, GETRANGE and PTTL.
func redislockChecks() {
	version("bsm/redislock", "github.com/bsm/redislock")
	check("bsm/redislock: acquires, and a second owner is refused", redislockRefuses)
	check("bsm/redislock: refreshes", redislockRefreshes)
	check("bsm/redislock: a lost lock is neither refreshed nor released", redislockIsLost)
	check("bsm/redislock: ten callers, no overlap", redislockExcludes)
}

func redislockRefuses() error {
	name := fresh("redislock")
	first, second := redislock.New(client(urls[0])), redislock.New(client(urls[0]))
	options := &redislock.Options{Metadata: "who holds it"}
	lock, err := first.Obtain(ctx, name, 10*time.Second, options)
	if err != nil {
		return err
	}
	if lock.Metadata() != "who holds it" {
		return fmt.Errorf("metadata %q", lock.Metadata())
	}
	if _, err := second.Obtain(ctx, name, 10*time.Second, nil); !errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("a second owner was answered %v", err)
	}
	if err := lock.Release(ctx); err != nil {
		return err
	}
	lock, err = second.Obtain(ctx, name, 10*time.Second, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func redislockRefreshes() error {
	lock, err := redislock.Obtain(ctx, client(urls[0]), fresh("refresh"), time.Second, nil)
	if err != nil {
		return err
	}
	if err := lock.Refresh(ctx, 20*time.Second, nil); err != nil {
		return err
	}
	left, err := lock.TTL(ctx)
	if err != nil || left < 10*time.Second || left > 20*time.Second {
		return fmt.Errorf("%v left: %w", left, err)
	}
	return lock.Release(ctx)
}

func redislockIsLost() error {
	name := fresh("lost")
	node := client(urls[0])
	lock, err := redislock.Obtain(ctx, node, name, 10*time.Second, nil)
	if err != nil {
		return err
	}
	node.Set(ctx, name, "somebody else", 10*time.Second)
	defer node.Del(ctx, name)
	if err := lock.Refresh(ctx, time.Second, nil); !errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("a lost lock was refreshed: %v", err)
	}
	if err := lock.Release(ctx); !errors.Is(err, redislock.ErrLockNotHeld) {
		return fmt.Errorf("a lost lock was released: %v", err)
	}
	if left, err := lock.TTL(ctx); left != 0 || err != nil {
		return fmt.Errorf("a lost lock has %v left: %w", left, err)
	}
	return nil
}

func redislockExcludes() error {
	type interval struct{ start, end time.Time }
	name := fresh("redislock-ten")
	limit, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var guard sync.Mutex
	var group sync.WaitGroup
	var held []interval
	problems := make(chan error, 10)
	for caller := 0; caller < 10; caller++ {
		group.Add(1)
		go func() {
			defer group.Done()
			locker := redislock.New(client(urls[0]))
			retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(3 * time.Millisecond)}
			for round := 0; round < 3; round++ {
				lock, err := locker.Obtain(limit, name, 10*time.Second, retry)
				if err != nil {
					problems <- err
					return
				}
				start := time.Now()
				time.Sleep(2 * time.Millisecond)
				guard.Lock()
				held = append(held, interval{start, time.Now()})
				guard.Unlock()
				if err := lock.Release(ctx); err != nil {
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
	if len(held) != 30 {
		return fmt.Errorf("%d of 30 locks were got", len(held))
	}
	return nil
}
