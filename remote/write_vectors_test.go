package remote

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// writeStart is the time that recorded writes are about, and writeNewest that of the newest sample
// before them.
const (
	writeStart  = 1_700_000_000_000
	writeNewest = writeStart + 3_585_007
)

// openForWrites opens a database whose blocks end before writeStart, and whose clock is a year
// behind the newest sample.
func openForWrites(t testing.TB, opts tsdb.Options) (*tsdb.DB, *tsdbtest.Clock) {
	t.Helper()
	clock := tsdbtest.NewClock(time.UnixMilli(writeNewest).Add(365 * 24 * time.Hour))
	opts.Clock = clock
	opts.Blocks.Manual = true
	if opts.FS == nil {
		opts.FS = tsdbtest.NewMemFS()
	}
	db, err := tsdb.Open("data", &opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, at := range []int64{writeStart - 10*3600_000, writeNewest} {
		app := db.Appender()
		_, err = app.Append(0, labels.FromStrings(labels.MetricName, "before"), at, 1)
		require.NoError(t, err)
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
		if at < writeStart {
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	return db, clock
}

// recordedWrite is a request with the answer of another receiver.
type recordedWrite struct {
	Name    string            `json:"name"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body_hex"`
	Status  int               `json:"status"`
	Answer  map[string]string `json:"response_headers"`
	Text    string            `json:"response_text"`
}

// writtenOf are the numbers that an answer gives, "" if it gives none.
func writtenOf(header func(string) string) string {
	text := ""
	for _, name := range writtenHeaders {
		if v := header(name); v != "" {
			text += "/" + v
		}
	}
	return text
}

// writeDifferences are the recorded writes that are answered in another way, and why.
var writeDifferences = map[string]struct {
	status  int
	written string
	why     string
}{
	"v1 no __name__":                                  {400, "", losesSilently},
	"v1 no labels":                                    {400, "", losesSilently},
	"v1 empty name value":                             {400, "", losesSilently},
	"v1 empty label name":                             {400, "", losesSilently},
	"v1 duplicate label names":                        {400, "", losesSilently},
	"v1 invalid utf8 value":                           {400, "", losesSilently},
	"v1 invalid utf8 name + good series":              {400, "", losesSilently},
	"v2 body with blank in ct":                        {204, "/1/0/0", "the blank is not part of the parameter's name, and what is stored counts"},
	"v2 body v1 content":                              {204, "/1/0/0", "a message is what it is, whatever the content type says"},
	"v2 one bad sample in a series":                   {400, "/3/0/0", "a sample before the one in front of it is not stored, and does not count as written"},
	"v2 several errors joined":                        {400, "/2/0/0", "the same"},
	"v1 series order: unsorted samples in one series": {400, "", losesSilently},
	"v1 same time twice in one series":                {400, "", losesSilently},
	"v2 exemplar out of order in a later request":     {204, "/1/0/1", "the database takes late exemplars"},
	"v2 three errors joined":                          {400, "/2/0/0", "the series of one had a newer sample by a request that was not recorded"},
	"v2 bad snappy":                                   {400, "/0/0/0", "the numbers are there behind every failure"},
	"v2 exemplar without sample":                      {204, "/0/0/1", "senders give exemplars a series of their own"},
}

const losesSilently = "what is not stored is told"

func TestWriteVectors_AreAnsweredAsRecorded(t *testing.T) {
	b, err := os.ReadFile("testdata/remote_write_receiver.json")
	require.NoError(t, err)
	var recorded struct {
		Pairs []recordedWrite `json:"pairs"`
	}
	require.NoError(t, json.Unmarshal(b, &recorded))
	require.Len(t, recorded.Pairs, 107)
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	skipped := map[string]bool{ // they have times of the day on which they were recorded, or no body
		"v1 far future 11 min": true, "v2 future + good": true, "v1 huge decompressed length": true, "v1 body > 32 MiB": true,
	}
	met := map[string]bool{}
	for _, p := range recorded.Pairs {
		if skipped[p.Name] {
			continue
		}
		body, err := hex.DecodeString(p.Body)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
		for name, value := range p.Headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		status, written := p.Status, writtenOf(func(name string) string { return p.Answer[name] })
		if d, ok := writeDifferences[p.Name]; ok {
			met[p.Name] = true
			require.NotEqual(t, [2]any{status, written}, [2]any{d.status, d.written}, "%s: there is no difference", p.Name)
			require.NotEmpty(t, d.why)
			status, written = d.status, d.written
		}
		if status != w.Code || written != writtenOf(w.Header().Get) {
			t.Errorf("%s: want %d %s (%s), got %d %s: %s", p.Name, status, written, p.Text, w.Code, writtenOf(w.Header().Get), w.Body)
		}
	}
	require.Len(t, met, len(writeDifferences))
}
