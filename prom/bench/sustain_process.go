package bench

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// sustainMessage is a line that a process of the workload writes: one thing that happened.
type sustainMessage struct {
	Unix   int64          // when, in nanoseconds; of what took some time, its end
	Second *SustainSecond `json:",omitempty"`
	Event  *SustainEvent  `json:",omitempty"`
	Least  float64        `json:",omitempty"` // bytes that the runtime of the process needs now
}

// teller writes messages, each as one line at once.
type teller struct {
	mu sync.Mutex
	to io.Writer
}

func (t *teller) tell(m sustainMessage) error {
	m.Unix = time.Now().UnixNano()
	line, err := json.Marshal(m)
	if err != nil {
		return errors.Wrap(err, "encode message")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err = t.to.Write(append(line, '\n'))
	return errors.Wrap(err, "write message")
}

func (t *teller) event(kind string, took time.Duration) error {
	return t.tell(sustainMessage{Event: &SustainEvent{Kind: kind, Seconds: took.Seconds()}})
}

// logged are the messages of the database's log that are events, and the attributes that
// say how long they took.
var logged = map[string]struct{ kind, took string }{
	"head flushed":         {eventFlush, "duration"},
	"blocks merged":        {eventMerge, "duration"},
	"made checkpoint":      {eventCheckpoint, "elapsed"},
	"snapshot of the head": {eventSnapshot, "duration"},
}

// Enabled makes a teller a slog.Handler.
func (t *teller) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs and WithGroup: what all messages have in common is of no use here.
func (t *teller) WithAttrs([]slog.Attr) slog.Handler { return t }
func (t *teller) WithGroup(string) slog.Handler      { return t }

// Handle tells of events, and of everything that is a warning or worse.
func (t *teller) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		text := []string{r.Message}
		r.Attrs(func(a slog.Attr) bool {
			text = append(text, a.String())
			return true
		})
		return t.tell(sustainMessage{Event: &SustainEvent{Kind: eventWarning, Text: strings.Join(text, " ")}})
	}
	event, ok := logged[r.Message]
	if !ok {
		return nil
	}
	var took time.Duration
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == event.took {
			took = a.Value.Duration()
		}
		return true
	})
	return t.event(event.kind, took)
}

// options are the defaults, but for the length of blocks.
func (o *sustainOrder) options(log *teller) *tsdb.Options {
	opts := tsdb.DefaultOptions()
	opts.Blocks.Range, opts.Blocks.MaxRange = o.Range, 0
	opts.Logger = slog.New(log)
	return opts
}

// sustain is the work of a process that writes: it opens the database, makes the series if
// there are none, and appends at the given rate.
func sustain(t task) (m measures, err error) {
	o, out := t.Sustain, &teller{to: os.Stdout}
	acks, err := os.OpenFile(o.ackFile(), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, errors.Wrap(err, "open acknowledgements")
	}
	defer acks.Close()
	if err := acks.Truncate(int64(o.Writers) * acknowledgement); err != nil { // those of before stay
		return nil, errors.Wrap(err, "size acknowledgements")
	}
	r := startRecorder(out, o.Every)
	defer func() {
		if stopErr := r.stop(); err == nil {
			err = stopErr
		}
	}()
	var db *tsdb.DB
	err = r.step(phaseOpen, eventReady, func() (err error) {
		db, err = tsdb.Open(o.dataDir(), o.options(out))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := o.write(db, acks, r, out); err != nil {
		return nil, err
	}
	// What was due and not done yet is done here: a database that leaves more and more of it
	// does not keep up.
	if err := r.step(phaseSettle, eventSettle, func() error { return db.Compact(context.Background()) }); err != nil {
		return nil, err
	}
	return nil, r.step(phaseClose, eventClose, db.Close)
}

// write runs the writers.
func (o *sustainOrder) write(db *tsdb.DB, acks *os.File, r *recorder, out *teller) error {
	var writers []*sustainWriter
	for i := range o.Writers {
		w, err := newSustainWriter(o, db, i, acks)
		if err != nil {
			return err
		}
		writers = append(writers, w)
	}
	if err := r.enter(phaseFill, writers); err != nil {
		return err
	}
	if err := together(writers, (*sustainWriter).fill); err != nil {
		return err
	}
	if err := r.enter(phaseRun, writers); err != nil {
		return err
	}
	if err := out.event(eventStart, 0); err != nil {
		return err
	}
	begin := time.Now()
	return together(writers, func(w *sustainWriter) error { return w.pace(begin, begin.Add(o.Work)) })
}

// together has all writers do something at the same time, and returns what the first one
// says that fails.
func together(writers []*sustainWriter, do func(*sustainWriter) error) error {
	done := make(chan error, len(writers))
	for _, w := range writers {
		go func() { done <- do(w) }()
	}
	for range writers {
		if err := <-done; err != nil {
			return err // the process ends
		}
	}
	return nil
}
