package page_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// The tests look at a database of some hosts, of the last 26 hours: blocks, and two hours in the
// head.
const (
	scrapeStep = 15 * time.Second
	dataSpan   = 26 * time.Hour
	headSpan   = 2 * time.Hour
)

// signal makes the values of one series, one for each scrape.
type signal struct {
	labels labels.Labels
	next   func(i int) float64
}

// hosts is a database with what is known of it.
type hosts struct {
	db    *tsdb.DB
	end   time.Time // of the newest sample, at a whole minute
	last  map[string]float64
	begun int64
}

// openHosts makes the database anew: its values are the same each time, and its times end now.
func openHosts(dir string) (*hosts, error) {
	db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	if err != nil {
		return nil, err
	}
	h := &hosts{db: db, end: time.Now().Truncate(time.Minute), last: map[string]float64{}}
	signals := hostSignals()
	refs := make([]tsdb.SeriesRef, len(signals))
	n := int(dataSpan / scrapeStep)
	start := h.end.Add(-dataSpan)
	h.begun = start.UnixMilli()
	for i := 0; i <= n; i++ {
		at := start.Add(time.Duration(i) * scrapeStep)
		if err := h.scrape(signals, refs, i, at.UnixMilli()); err != nil {
			return nil, err
		}
		if i == n-int(headSpan/scrapeStep) {
			if err := db.Flush(context.Background()); err != nil {
				return nil, err
			}
			if err := db.Compact(context.Background()); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

func (h *hosts) scrape(signals []signal, refs []tsdb.SeriesRef, i int, at int64) (err error) {
	app := h.db.Appender()
	for k, s := range signals {
		v := s.next(i)
		if math.IsNaN(v) {
			continue
		}
		if refs[k], err = app.Append(refs[k], s.labels, at, v); err != nil {
			return err
		}
		h.last[s.labels.String()] = v
	}
	_, err = app.Commit(context.Background())
	return err
}

// hostSignals are what exporters of some hosts and a web server tell.
func hostSignals() []signal {
	var all []signal
	add := func(seed uint64, make func(r *rand.Rand) func(int) float64, pairs ...string) {
		all = append(all, signal{labels.FromStrings(pairs...), make(rand.New(rand.NewPCG(seed, 27)))})
	}
	machines := []string{"web-1", "web-2", "web-3", "db-1", "db-2", "cache-1"}
	for k, host := range machines {
		seed, size := uint64(k+1), float64(k)
		with := func(name string, more ...string) []string {
			return append([]string{"__name__", name, "instance", host + ":9100", "job", "node"}, more...)
		}
		add(seed, constant(1), with("up")...)
		add(seed, wave(0.8+size*0.35, 0.3+size*0.06, size), with("node_load1")...)
		add(seed+10, wave(9.4e9-size*1.1e9, 0.6e9, size*2), with("node_memory_MemAvailable_bytes")...)
		add(seed+20, rising(180e3*(1+size/3)), with("node_network_receive_bytes_total", "device", "eth0")...)
		add(seed+30, falling(412e9-size*41e9, 31e3*(1+size)), with("node_filesystem_avail_bytes", "mountpoint", "/var/lib")...)
		for m, mode := range []string{"user", "system", "iowait", "idle"} {
			if k < 2 {
				add(seed+uint64(40+m*10), rising([]float64{0.9, 0.35, 0.08, 2.6}[m]), with("node_cpu_seconds_total", "mode", mode)...)
			}
		}
	}
	for k, code := range []string{"200", "204", "301", "404", "500", "503"} {
		add(uint64(100+k), rising([]float64{86, 21, 9, 4, 0.6, 0.2}[k]), "__name__", "http_requests_total", "code", code, "instance", "web-1:8080", "job", "web")
	}
	for k, le := range []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "1", "+Inf"} {
		add(200, rising(112*[]float64{0.22, 0.41, 0.66, 0.81, 0.91, 0.97, 0.995, 1}[k]), "__name__", "http_request_duration_seconds_bucket", "instance", "web-1:8080", "job", "web", "le", le)
	}
	for k, version := range []string{"1.4.0", "1.4.1", "1.5.0", "1.5.1", "1.6.0"} {
		add(0, during(k*300*4, (k+1)*300*4+k*80), "__name__", "web_build_info", "instance", "web-1:8080", "job", "web", "version", version)
	}
	return all
}

// during is 1 from one scrape to another; before and after there is nothing.
func during(from, to int) func(*rand.Rand) func(int) float64 {
	return func(*rand.Rand) func(int) float64 {
		return func(i int) float64 {
			if i < from || i >= to {
				return math.NaN()
			}
			return 1
		}
	}
}

func constant(v float64) func(*rand.Rand) func(int) float64 {
	return func(*rand.Rand) func(int) float64 { return func(int) float64 { return v } }
}

// wave goes up and down over hours, with some noise that fades slowly.
func wave(mean, swing, phase float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		drift := 0.0
		return func(i int) float64 {
			drift = drift*0.97 + r.NormFloat64()*swing*0.07
			hours := float64(i) * scrapeStep.Hours()
			v := mean + swing*math.Sin(hours*1.9+phase)*0.6 + swing*math.Sin(hours*0.35+phase*3) + drift
			return math.Round(max(v, 0)*100) / 100
		}
	}
}

// rising is a counter with so much a second, more or less.
func rising(perSecond float64) func(*rand.Rand) func(int) float64 {
	return func(r *rand.Rand) func(int) float64 {
		total, drift := 0.0, 0.0
		return func(i int) float64 {
			drift = drift*0.95 + r.NormFloat64()*0.06
			busy := 1 + 0.35*math.Sin(float64(i)*scrapeStep.Hours()*2.3) + drift
			total += perSecond * scrapeStep.Seconds() * max(busy, 0)
			return math.Round(total*1000) / 1000
		}
	}
}

func falling(from, perSecond float64) func(*rand.Rand) func(int) float64 {
	return func(*rand.Rand) func(int) float64 {
		return func(i int) float64 { return math.Round(from - float64(i)*scrapeStep.Seconds()*perSecond) }
	}
}

// crowded opens a database of many series, with a sample a minute until the end of the data.
func crowded(t *testing.T, series int) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	refs := make([]tsdb.SeriesRef, series)
	for minute := range 20 {
		app := db.Appender()
		for i := range refs {
			ls := labels.FromStrings("__name__", "queue_length", "queue", fmt.Sprintf("q%04d", i))
			refs[i], err = app.Append(refs[i], ls, data.end.Add(time.Duration(minute-19)*time.Minute).UnixMilli(), float64(i%97+minute))
			require.NoError(t, err)
		}
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
	}
	return db
}

// damaged opens a database to whose first block something was done while it was closed.
func damaged(t *testing.T, damage func(block string)) *tsdb.DB {
	t.Helper()
	dir := t.TempDir()
	open := func() *tsdb.DB {
		db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
		require.NoError(t, err)
		return db
	}
	db := open()
	ls := labels.FromStrings("__name__", "up", "job", "node")
	for hour := range 6 {
		app := db.Appender()
		_, err := app.Append(0, ls, time.Now().Add(time.Duration(hour-7)*time.Hour).UnixMilli(), 1)
		require.NoError(t, err)
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
	}
	require.NoError(t, db.Flush(context.Background()))
	blocks := db.Blocks()
	require.NotEmpty(t, blocks)
	require.NoError(t, db.Close())
	damage(filepath.Join(dir, blocks[0].ULID.String()))
	return open()
}
