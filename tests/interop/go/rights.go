package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

// Users with exactly the rights that the book gives for a lock library, and with one right less. QUORLOCK_RIGHTS is
// that page of the book.
func rightsChecks() {
	for _, one := range []struct {
		check, library string
		works          func([]string) error
	}{
		{"redsync", "redsync", redsyncWorks},
		{"bsm/redislock", "bsm/redislock", redislockWorks},
	} {
		check(one.check+": works with the rights of the book", func() error {
			return withUser(rulesOf(one.library), one.works)
		})
		check(one.check+": fails with one right less", func() error { return oneLess(rulesOf(one.library), one.works) })
	}
}

func rulesOf(library string) []string {
	page, err := os.ReadFile(os.Getenv("QUORLOCK_RIGHTS"))
	if err != nil {
		panic(err)
	}
	for _, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "| "+library+" |") {
			rules := regexp.MustCompile("\\| `(\\+[^`]+)`").FindStringSubmatch(line)[1]
			return strings.Fields(strings.ReplaceAll(rules, "\\|", "|"))
		}
	}
	panic("no rules for " + library)
}

func oneLess(rules []string, works func([]string) error) error {
	var needless []string
	for index, rule := range rules {
		fewer := append(append([]string{}, rules[:index]...), rules[index+1:]...)
		if withUser(fewer, works) == nil {
			needless = append(needless, rule)
		}
	}
	if needless != nil {
		return fmt.Errorf("nothing needs %v", needless)
	}
	return nil
}

// withUser calls it with the addresses of all nodes for a user with these rules.
func withUser(rules []string, works func([]string) error) error {
	name := fmt.Sprintf("interop-%d-%d", os.Getpid(), time.Now().UnixNano())
	var addresses []string
	for _, address := range urls {
		admin := client(address)
		defer admin.Close()
		arguments := []any{"ACL", "SETUSER", name, "on", ">pw", "~interop:*", "+ping"}
		for _, rule := range rules {
			arguments = append(arguments, rule)
		}
		if err := admin.Do(ctx, arguments...).Err(); err != nil {
			return err
		}
		defer admin.Do(ctx, "ACL", "DELUSER", name)
		// A script that is there already needs no right to be sent.
		admin.ScriptFlush(ctx)
		parsed, err := url.Parse(address)
		if err != nil {
			return err
		}
		parsed.User = url.UserPassword(name, "pw")
		addresses = append(addresses, parsed.String())
	}
	return works(addresses)
}

// leave gives the key so much less that an extension shows.
func leave(nodes []string, name string) {
	for _, address := range nodes {
		client(address).PExpire(ctx, name, 2*time.Second)
	}
}

// left says whether the key has more than that on all of these nodes, or is on none.
func left(nodes []string, name string, wanted bool) error {
	for _, address := range nodes {
		left, err := client(address).PTTL(ctx, name).Result()
		if err != nil || (left > 2*time.Second) != wanted || (!wanted && left > 0) {
			return fmt.Errorf("%v left: %w", left, err)
		}
	}
	return nil
}

func redsyncWorks(addresses []string) error {
	name := fmt.Sprintf("%s:%d", fresh("rights"), time.Now().UnixNano())
	pools := make([]syncredis.Pool, 0, len(addresses))
	for _, address := range addresses {
		pools = append(pools, goredis.NewPool(client(address)))
	}
	expiry, once := redsync.WithExpiry(5*time.Second), redsync.WithTries(1)
	mutex := redsync.New(pools...).NewMutex(name, expiry, once)
	if err := mutex.Lock(); err != nil {
		return err
	}
	if redsync.New(pools...).NewMutex(name, expiry, once).Lock() == nil {
		return errors.New("a second owner got the lock")
	}
	leave(urls, name)
	if ok, err := mutex.Extend(); !ok || err != nil {
		return fmt.Errorf("extended %v: %w", ok, err)
	}
	if err := left(urls, name, true); err != nil {
		return err
	}
	if ok, err := mutex.Unlock(); !ok || err != nil {
		return fmt.Errorf("released %v: %w", ok, err)
	}
	return left(urls, name, false)
}

func redislockWorks(addresses []string) error {
	name := fmt.Sprintf("%s:%d", fresh("rights"), time.Now().UnixNano())
	node := client(addresses[0])
	defer node.Close()
	lock, err := redislock.Obtain(ctx, node, name, 5*time.Second, nil)
	if err != nil {
		return err
	}
	if _, err := redislock.Obtain(ctx, node, name, 5*time.Second, nil); !errors.Is(err, redislock.ErrNotObtained) {
		return fmt.Errorf("a second owner was answered %v", err)
	}
	// One that holds the token obtains it again.
	again := &redislock.Options{Token: lock.Token()}
	if _, err := redislock.Obtain(ctx, node, name, 5*time.Second, again); err != nil {
		return err
	}
	leave(urls[:1], name)
	if err := lock.Refresh(ctx, 5*time.Second, nil); err != nil {
		return err
	}
	if err := left(urls[:1], name, true); err != nil {
		return err
	}
	if left, err := lock.TTL(ctx); err != nil || left <= 0 {
		return fmt.Errorf("%v left: %w", left, err)
	}
	if err := lock.Release(ctx); err != nil {
		return err
	}
	return left(urls[:1], name, false)
}
