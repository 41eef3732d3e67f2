package vmctl

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// sample is a time in milliseconds and a value.
type sample struct {
	t int64
	v float64
}

// data is samples by series.
type data map[string][]sample

// keyOf is a label set as text.
func keyOf(pairs map[string]string) string {
	key, err := json.Marshal(pairs) // sorted
	if err != nil {
		panic(err) // strings alone
	}
	return string(key)
}

// requireEqual compares and shows the first series that differs.
func requireEqual(t *testing.T, want, got data) {
	t.Helper()
	require.Equal(t, len(want), len(got), "series")
	for key, list := range want {
		for i, p := range list {
			require.True(t, i < len(got[key]) && got[key][i] == p, "%s: %d samples wanted, %d there; %v is missing or not in its place, which is %d", key, len(list), len(got[key]), p, i)
		}
		require.Equal(t, len(list), len(got[key]), "samples of %s", key)
	}
}

const (
	start = int64(1_700_000_000_000)
	step  = int64(15_000)
	steps = 3 * 60 * 4 // three hours
	hour  = int64(3_600_000)
)

// newWorld makes a database with counters and gauges, some of them in blocks, and returns it with
// what is in it.
func newWorld(t *testing.T) (*tsdb.DB, data) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	rng := rand.New(rand.NewPCG(27, 4))
	want := data{}
	for s := range steps {
		app := db.Appender()
		at := start + int64(s)*step
		for i := range 40 {
			if rng.IntN(50) == 0 {
				continue
			}
			pairs := map[string]string{"__name__": []string{"requests_total", "temperature"}[i%2], "host": fmt.Sprint("h", i), "path": `/a "b"/ü`}
			v := float64(s * i)
			if i%2 == 1 {
				v = rng.NormFloat64()
			}
			_, err := app.Append(0, labels.FromMap(pairs), at, v)
			require.NoError(t, err)
			key := keyOf(pairs)
			want[key] = append(want[key], sample{at, v})
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
		if s == steps/2 {
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	return db, want
}
