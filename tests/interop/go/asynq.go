package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// asynq on one node: a queue whose every step is a script over lists, sets, sorted sets and hashes.
func asynqChecks() {
	version("asynq", "github.com/hibiken/asynq")
	check("asynq: a server works off tasks, one retried, one for later", asynqWorksOff)
	check("asynq: unique tasks", asynqIsUnique)
}

// quiet keeps asynq's log, which goes to standard error, out of the report.
type quiet struct{}

func (quiet) Debug(...interface{}) {}
func (quiet) Info(...interface{})  {}
func (quiet) Warn(...interface{})  {}
func (quiet) Error(...interface{}) {}
func (quiet) Fatal(...interface{}) {}

func asynqNode() asynq.RedisClientOpt {
	node, err := url.Parse(urls[0])
	if err != nil {
		panic(err)
	}
	return asynq.RedisClientOpt{Addr: node.Host}
}

func asynqWorksOff() error {
	queue := fresh("asynq")
	var done, tries atomic.Int64
	mux := asynq.NewServeMux()
	mux.HandleFunc("count", func(context.Context, *asynq.Task) error {
		done.Add(1)
		return nil
	})
	mux.HandleFunc("stumble", func(context.Context, *asynq.Task) error {
		if tries.Add(1) == 1 {
			return errors.New("not yet")
		}
		done.Add(1)
		return nil
	})
	server := asynq.NewServer(asynqNode(), asynq.Config{
		Queues:                   map[string]int{queue: 1},
		Logger:                   quiet{},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	producer := asynq.NewClient(asynqNode())
	defer producer.Close()
	for number := 0; number < 10; number++ {
		if _, err := producer.Enqueue(asynq.NewTask("count", nil), asynq.Queue(queue)); err != nil {
			return err
		}
	}
	options := []asynq.Option{asynq.Queue(queue), asynq.MaxRetry(3), asynq.ProcessIn(time.Second)}
	if _, err := producer.Enqueue(asynq.NewTask("stumble", nil), options...); err != nil {
		return err
	}
	for end := time.Now().Add(15 * time.Second); done.Load() < 11; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d of 11 tasks were done", done.Load())
		}
	}
	inspector := asynq.NewInspector(asynqNode())
	defer inspector.Close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			return err
		}
		if info.ProcessedTotal == 12 && info.FailedTotal == 1 && info.Size == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("processed %d, failed %d, size %d", info.ProcessedTotal, info.FailedTotal, info.Size)
		}
	}
}

func asynqIsUnique() error {
	queue := fresh("asynq-unique")
	producer := asynq.NewClient(asynqNode())
	defer producer.Close()
	task := asynq.NewTask("once", []byte("payload"))
	options := []asynq.Option{asynq.Queue(queue), asynq.Unique(time.Minute)}
	if _, err := producer.Enqueue(task, options...); err != nil {
		return err
	}
	if _, err := producer.Enqueue(task, options...); !errors.Is(err, asynq.ErrDuplicateTask) {
		return fmt.Errorf("the second time was answered %v", err)
	}
	inspector := asynq.NewInspector(asynqNode())
	defer inspector.Close()
	tasks, err := inspector.ListPendingTasks(queue)
	if err != nil || len(tasks) != 1 {
		return fmt.Errorf("%d tasks are pending: %w", len(tasks), err)
	}
	return inspector.DeleteQueue(queue, true)
}
