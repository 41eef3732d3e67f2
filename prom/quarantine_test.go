package prom_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// setAside opens a database whose block was damaged while it was closed, so that it is in
// quarantine.
func setAside(t *testing.T, damage func(t *testing.T, block string)) (*tsdb.DB, tsdb.BlockMeta) {
	t.Helper()
	dir := t.TempDir()
	open := func() *tsdb.DB {
		db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
		require.NoError(t, err)
		return db
	}
	db := open()
	fill(t, prom.NewStorage(db))
	require.Len(t, db.Blocks(), 1)
	block := db.Blocks()[0]
	require.NoError(t, db.Close())
	damage(t, filepath.Join(dir, block.ULID.String()))
	db = open()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, block
}

func TestHTTPAPI_QueriesOverAMissingBlockNameIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, block string)
		says   string
	}{
		{"set aside", func(t *testing.T, block string) { require.NoError(t, os.Truncate(filepath.Join(block, "index"), 40)) }, "block quarantine"},
		{"vanished", func(t *testing.T, block string) { require.NoError(t, os.RemoveAll(block)) }, "vanished block "},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, block := setAside(t, c.damage)
			h := prom.NewHandler(db, &prom.HandlerOptions{Engine: prom.EngineOptions{Lookback: 100 * time.Millisecond}})
			for path, touches := range map[string]bool{
				"query?query=m&time=0.45":                        true,
				"query?query=count(m)&time=0.45":                 true,
				"query?query=rate(m[400ms])&time=0.6":            true,
				"query?query=m&time=0.9":                         false,
				"query_range?query=m&start=0&end=0.9&step=0.1":   true,
				"query_range?query=m&start=0.7&end=0.9&step=0.1": false,
				"series?match[]=m&start=0&end=1":                 true,
				"series?match[]=m":                               true,
				"series?match[]=m&start=0.6&end=1":               false,
				"labels?start=0&end=1":                           true,
				"labels?match[]=m&start=0&end=0.1":               true,
				"labels?start=0.6&end=1":                         false,
				"label/i/values?start=0&end=1":                   true,
				"label/i/values?start=0.6&end=1":                 false,
			} {
				w := request(h, "/api/v1/"+path)
				require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
				var got struct{ Warnings []string }
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
				if !touches {
					require.Empty(t, got.Warnings, path)
					continue
				}
				require.Len(t, got.Warnings, 1, path)
				require.Contains(t, got.Warnings[0], c.says, path)
				require.Contains(t, got.Warnings[0], block.ULID.String(), path)
			}
		})
	}
}
