package tsdb_test

import (
	"bytes"
	"encoding/json"
	stderrors "errors"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// An error with a stack, joined with another one, within a third: as text and as JSON.
func TestLog_AnErrorIsOneLineWhateverItIsMadeOf(t *testing.T) {
	err := errors.WithMessage(stderrors.Join(errors.Wrap(fs.ErrNotExist, "open a"), errors.New("close b\nof c")), "flush head")
	const want = "flush head: open a: file does not exist; close b; of c"
	var text, jsn bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&jsn, nil)} {
		slog.New(h).Warn("it", "error", tsdb.Logged(err), "none", tsdb.Logged(nil))
	}
	require.Contains(t, text.String(), `error="`+want+`" none=<nil>`)
	require.Equal(t, 1, strings.Count(text.String(), "\n"))
	var got map[string]any
	require.NoError(t, json.Unmarshal(jsn.Bytes(), &got))
	require.Equal(t, map[string]any{"error": want, "none": nil}, map[string]any{"error": got["error"], "none": got["none"]})
	require.ErrorIs(t, tsdb.Logged(err).(error), fs.ErrNotExist)
}

// What the library logs of a database whose disk fails in several ways at once.
func TestLog_EventsOfADatabaseAreLines(t *testing.T) {
	var text bytes.Buffer
	f := newFixture(t, func(o *tsdb.Options) { o.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
	f.commit(sample{`{a="b"}`, 1, 1})
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() || op.Kind == tsdbtest.OpClose || op.Kind == tsdbtest.OpUnlockDir {
			return errors.WithStack(syscall.EIO)
		}
		return nil
	})
	err := f.db.Close()
	f.db = nil
	require.Error(t, err)
	require.Contains(t, err.Error(), "\n", "several errors were joined")
	require.Contains(t, text.String(), `msg="database closed"`)
	for line := range strings.Lines(text.String()) {
		require.True(t, strings.HasPrefix(line, "time="), line)
		require.NotContains(t, line, `\n`)
		require.NotContains(t, line, ".go:", "no call stack")
	}
}
