// rueidis with its client-side cache and rueidislock, which waits for locks with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func cachingOption() rueidis.ClientOption {
	parsed, err := url.Parse(urls[0])
	if err != nil {
		panic(err)
	}
	return rueidis.ClientOption{InitAddress: []string{parsed.Host}}
}

// A cached value is served from memory, and another one is seen soon after somebody has written it.
func caches(tracking ...string) error {
	option := cachingOption()
	option.ClientTrackingOptions = tracking
	cached, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer cached.Close()
	writer := client(urls[0])
	key := fresh("cached")
	defer writer.Del(ctx, key)
	get := func() (string, bool, error) {
		reply := cached.DoCache(ctx, cached.B().Get().Key(key).Cache(), time.Minute)
		value, err := reply.ToString()
		return value, reply.IsCacheHit(), err
	}
	for round := 0; round < 20; round++ {
		wanted := fmt.Sprint(round)
		if err := writer.Set(ctx, key, wanted, time.Minute).Err(); err != nil {
			return err
		}
		end := time.Now().Add(5 * time.Second)
		for {
			value, _, err := get()
			if err != nil {
				return err
			}
			if value == wanted {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s is still cached, and %s was written", value, wanted)
			}
		}
		value, isHit, err := get()
		if value != wanted || !isHit || err != nil {
			return fmt.Errorf("got %s, from the cache: %v: %w", value, isHit, err)
		}
	}
	return nil
}

func cachingLocker() (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   cachingOption(),
		KeyPrefix:      fresh("rueidislock"),
		KeyMajority:    1,
		NoLoopTracking: true,
	})
}

func excludesCaching() error {
	var lockers [10]rueidislock.Locker
	for caller := range lockers {
		locker, err := cachingLocker()
		if err != nil {
			return err
		}
		defer locker.Close()
		lockers[caller] = locker
	}
	return holdAlone(len(lockers), func(caller int) (func() error, error) {
		limited, end := context.WithTimeout(ctx, 60*time.Second)
		_, release, err := lockers[caller].WithContext(limited, "ten")
		if err != nil {
			end()
			return nil, err
		}
		return func() error {
			release()
			end()
			return nil
		}, nil
	})
}

// Who waits is woken by the message that the key is gone, long before the lock's time would have been up.
func wakesCaching() error {
	holder, err := cachingLocker()
	if err != nil {
		return err
	}
	defer holder.Close()
	waiter, err := cachingLocker()
	if err != nil {
		return err
	}
	defer waiter.Close()
	_, release, err := holder.WithContext(ctx, "wakes")
	if err != nil {
		return err
	}
	if _, _, err := waiter.TryWithContext(ctx, "wakes"); !errors.Is(err, rueidislock.ErrNotLocked) {
		return fmt.Errorf("a second owner got the lock: %w", err)
	}
	woken := make(chan error, 1)
	go func() {
		limited, end := context.WithTimeout(ctx, 20*time.Second)
		defer end()
		_, releaseToo, err := waiter.WithContext(limited, "wakes")
		if err == nil {
			releaseToo()
		}
		woken <- err
	}()
	time.Sleep(300 * time.Millisecond)
	select {
	case err := <-woken:
		return fmt.Errorf("it did not wait: %w", err)
	default:
	}
	released := time.Now()
	release()
	if err := <-woken; err != nil {
		return err
	}
	if waited := time.Since(released); waited > 2*time.Second {
		return fmt.Errorf("it was woken after %v", waited)
	}
	return nil
}
