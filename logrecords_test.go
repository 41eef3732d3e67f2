package tsdb_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// logRecords is a slog.Handler that keeps everything.
type logRecords struct {
	mu   sync.Mutex
	list []slog.Record
}

func (l *logRecords) Enabled(context.Context, slog.Level) bool { return true }

func (l *logRecords) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Clone())
	return nil
}

func (l *logRecords) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logRecords) WithGroup(string) slog.Handler      { return l }

// event is a record as a test compares it.
type event struct {
	level slog.Level
	attrs map[string]slog.Value
	names []string // of the attributes, in order
}

// of returns the events with a message, in order.
func (l *logRecords) of(message string) []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []event
	for _, r := range l.list {
		if r.Message != message {
			continue
		}
		e := event{level: r.Level, attrs: map[string]slog.Value{}}
		r.Attrs(func(a slog.Attr) bool {
			e.attrs[a.Key] = a.Value
			e.names = append(e.names, a.Key)
			return true
		})
		found = append(found, e)
	}
	return found
}

// one returns the only event with a message.
func (l *logRecords) one(t testing.TB, message string) event {
	t.Helper()
	found := l.of(message)
	require.Len(t, found, 1, "events %q", message)
	return found[0]
}
