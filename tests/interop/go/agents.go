package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Two agents of the same nodes. The first owner asks one of them, the second owner the other one.
var agents = strings.Split(os.Getenv("QUORLOCK_AGENTS"), ",")

// What a library that knows one Redis gives: a lock that somebody else holds is errTaken.
type agentLock struct {
	extend  func(ttl time.Duration) error
	release func() error
}

type agentLibrary func(url, name string, ttl time.Duration) (*agentLock, error)

var errTaken = errors.New("somebody else holds it")

func bsmLock(url, name string, ttl time.Duration) (*agentLock, error) {
	lock, err := redislock.Obtain(ctx, client(url), name, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	return &agentLock{
		extend:  func(ttl time.Duration) error { return lock.Refresh(ctx, ttl, nil) },
		release: func() error { return lock.Release(ctx) },
	}, nil
}

// redsyncLock has a single pool, as those have who know one Redis.
func redsyncLock(url, name string, ttl time.Duration) (*agentLock, error) {
	sync := redsync.New(goredis.NewPool(client(url)))
	mutex := sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
	var taken *redsync.ErrTaken
	if err := mutex.Lock(); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, errTaken
	} else if err != nil {
		return nil, err
	}
	failed := func(ok bool, err error) error {
		if !ok && err == nil {
			err = errors.New("it is not held")
		}
		return err
	}
	return &agentLock{
		extend: func(ttl time.Duration) error {
			redsync.WithExpiry(ttl).Apply(mutex)
			return failed(mutex.Extend())
		},
		release: func() error { return failed(mutex.Unlock()) },
	}, nil
}

func agentRefuses(obtain agentLibrary) error {
	name := fresh("agents-refuses")
	lock, err := obtain(agents[0], name, 4*time.Second)
	if err != nil {
		return err
	}
	if _, err := obtain(agents[1], name, 4*time.Second); !errors.Is(err, errTaken) {
		return fmt.Errorf("a second owner was answered %w", err)
	}
	if err := lock.release(); err != nil {
		return err
	}
	next, err := obtain(agents[1], name, 4*time.Second)
	if err != nil {
		return err
	}
	return next.release()
}

func agentExtends(obtain agentLibrary) error {
	name := fresh("agents-extends")
	lock, err := obtain(agents[0], name, 800*time.Millisecond)
	if err != nil {
		return err
	}
	if err := lock.extend(4 * time.Second); err != nil {
		return err
	}
	time.Sleep(1200 * time.Millisecond)
	if _, err := obtain(agents[1], name, time.Second); !errors.Is(err, errTaken) {
		return fmt.Errorf("a second owner was answered %w", err)
	}
	return lock.release()
}

// A lock lasts as long as it was asked for, and not for good; its first owner can then do nothing to it.
func agentExpires(obtain agentLibrary) error {
	name := fresh("agents-expires")
	lock, err := obtain(agents[0], name, 500*time.Millisecond)
	if err != nil {
		return err
	}
	start := time.Now()
	next, err := obtained(obtain, agents[1], name)
	if err != nil {
		return err
	}
	if passed := time.Since(start); passed < 500*time.Millisecond {
		return fmt.Errorf("it ended after %v", passed)
	}
	if lock.extend(time.Second) == nil || lock.release() == nil {
		return errors.New("a lost lock was extended or released")
	}
	return next.release()
}

// obtained asks until it has the lock, also where the agent could not reach a majority.
func obtained(obtain agentLibrary, url, name string) (lock *agentLock, err error) {
	err = patiently(func() error {
		lock, err = obtain(url, name, 4*time.Second)
		return err
	})
	return lock, err
}

func patiently(call func() error) error {
	end := time.Now().Add(60 * time.Second)
	for {
		err := call()
		again := err != nil && (errors.Is(err, errTaken) ||
			strings.Contains(err.Error(), "NOQUORUM") || strings.Contains(err.Error(), "TRYAGAIN"))
		if !again || time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func agentExcludes(obtain agentLibrary) error {
	name := fresh("agents-eight")
	return holdAlone(8, func(caller int) (func() error, error) {
		lock, err := obtained(obtain, agents[caller%2], name)
		if err != nil {
			return nil, err
		}
		return func() error { return patiently(lock.release) }, nil
	})
}

// rueidislock has the node tell when a key changes, which an agent cannot.
func agentTracksNothing() error {
	address := strings.TrimPrefix(agents[0], "redis://")
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}},
		KeyMajority:  1,
	})
	if err == nil {
		defer locker.Close()
		limited, end := context.WithTimeout(ctx, 5*time.Second)
		defer end()
		_, _, err = locker.TryWithContext(limited, "agents")
	}
	if err == nil || !strings.Contains(err.Error(), "NOTALOCK ") {
		return fmt.Errorf("it was answered %v", err)
	}
	return nil
}

func agentChecks() {
	libraries := []struct {
		name, module string
		obtain       agentLibrary
	}{
		{"bsm/redislock through an agent", "github.com/bsm/redislock", bsmLock},
		{"redsync through an agent", "github.com/go-redsync/redsync/v4", redsyncLock},
	}
	for _, library := range libraries {
		version(library.name, library.module)
		run := func(scenario string, scenarioCheck func(agentLibrary) error) {
			check(library.name+": "+scenario, func() error { return scenarioCheck(library.obtain) })
		}
		run("acquires, and a second owner is refused", agentRefuses)
		run("extends", agentExtends)
		run("expires, and a lost lock is not released", agentExpires)
		run("eight callers, no overlap", agentExcludes)
	}
	version("rueidislock through an agent", "github.com/redis/rueidis")
	check("rueidislock through an agent: its tracking is refused by name", agentTracksNothing)
}
