package main

import (
	"context"
	"errors"
	"fmt"
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
	name := fresh("redislock-ten")
	limit, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	var lockers [10]*redislock.Client
	for caller := range lockers {
		lockers[caller] = redislock.New(client(urls[0]))
	}
	return holdAlone(len(lockers), func(caller int) (func() error, error) {
		retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(3 * time.Millisecond)}
		lock, err := lockers[caller].Obtain(limit, name, 10*time.Second, retry)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(ctx) }, nil
	})
}
