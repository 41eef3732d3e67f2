package tsdb_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// nilArguments calls every method of a value that takes a context or matchers, each time with
// one of them nil, and returns the errors by name of the method. So a method that is new is
// tried, too.
func nilArguments(t *testing.T, of func() any) map[string][]error {
	t.Helper()
	errs := map[string][]error{}
	typ := reflect.TypeOf(of())
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		ctxAt, msAt := -1, -1
		for p := 1; p < m.Type.NumIn(); p++ {
			switch m.Type.In(p) {
			case reflect.TypeFor[context.Context]():
				ctxAt = p
			case reflect.TypeFor[[]*labels.Matcher]():
				msAt = p
			}
		}
		for _, at := range []int{ctxAt, msAt} {
			if at < 0 {
				continue
			}
			args := []reflect.Value{reflect.ValueOf(of())}
			for p := 1; p < m.Type.NumIn(); p++ {
				args = append(args, reflect.Zero(m.Type.In(p)))
			}
			if ctxAt > 0 && at != ctxAt {
				args[ctxAt] = reflect.ValueOf(ctx)
			}
			if at == msAt {
				args[msAt] = reflect.ValueOf([]*labels.Matcher{labels.Equal("a", "b"), nil})
			}
			call := m.Func.Call
			if m.Type.IsVariadic() {
				call = m.Func.CallSlice
			}
			out := call(args)
			errs[m.Name] = append(errs[m.Name], errorOf(out[len(out)-1]))
		}
	}
	return errs
}

// errorOf is an error, or that of a set.
func errorOf(v reflect.Value) error {
	if err, ok := v.Interface().(error); ok {
		return err
	}
	if set, ok := v.Interface().(interface{ Err() error }); ok {
		return set.Err()
	}
	return nil
}

func TestArguments_ANilContextOrMatcherIsAClearErrorOfEveryMethod(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 1, 1})
	q, err := f.db.Querier(0, 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	w, err := tsdb.NewBlockWriter("blocks", &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	for name, c := range map[string]struct {
		of   func() any
		want []string // methods that must be among them
	}{
		"DB":          {func() any { return f.db }, []string{"Cardinality", "CleanTombstones", "Compact", "Delete", "Flush", "Snapshot"}},
		"Appender":    {func() any { return f.db.Appender() }, []string{"Commit"}},
		"Querier":     {func() any { return q }, []string{"LabelNames", "LabelValues", "Select", "SelectChunks"}},
		"Reader":      {func() any { return r }, []string{"Cardinality", "Refresh"}},
		"BlockWriter": {func() any { return w }, []string{"Flush"}},
	} {
		errs := nilArguments(t, c.of)
		for _, method := range c.want {
			require.Contains(t, errs, method, name)
		}
		for method, list := range errs {
			for _, err := range list {
				require.ErrorIs(t, err, tsdb.ErrInvalidArgument, "%s.%s", name, method)
				require.Regexp(t, `the context is nil|a matcher is nil`, err.Error(), "%s.%s", name, method)
			}
		}
	}
	_, err = f.db.Cardinality(ctx, tsdb.CardinalityOptions{Matchers: []*labels.Matcher{nil}})
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	require.NoError(t, f.db.Health())
	require.Len(t, f.all(), 1, "nothing was done")
	_, err = w.Flush(ctx)
	require.NoError(t, err, "the writer goes on")
}

func TestArguments_ANilContextIsAClearErrorOfEveryFunction(t *testing.T) {
	f := newFixture(t, manual)
	require.NoError(t, f.db.Close())
	f.db = nil
	var none context.Context
	_, err := tsdb.Verify(none, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	_, err = tsdb.Repair(none, fixtureDir, &tsdb.RepairOptions{Options: f.opts})
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
}

// What was staged is told to be nowhere.
func TestArguments_CommitWithoutAContextIsNotCommitted(t *testing.T) {
	f := newFixture(t, manual)
	app := f.db.Appender()
	_, err := app.Append(0, labels.FromStrings("a", "b"), 1, 1)
	require.NoError(t, err)
	var none context.Context
	_, err = app.Commit(none)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	require.Empty(t, f.all())
}
