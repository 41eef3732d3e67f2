package remote

import (
	"bytes"
	stderrors "errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// unreadable is a database that cannot be read.
type unreadable struct{ err error }

func (f unreadable) Querier(int64, int64) (*tsdb.Querier, error) { return nil, f.err }

func TestLog_AFailedReadIsOneLineWithoutAStack(t *testing.T) {
	var text bytes.Buffer
	err := stderrors.Join(errors.Wrap(fs.ErrPermission, "open a"), errors.New("close b"))
	h := ReadHandler(unreadable{err}, &ReadOptions{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(allOf(typeSamples, "up"))))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, 1, strings.Count(text.String(), "\n"))
	require.Contains(t, text.String(), `error="open a: permission denied; close b"`)
}
