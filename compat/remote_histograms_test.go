package compat

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/remote"
)

// anyPeers are the clients of both sides, which read samples of every kind.
var anyPeers = map[string]func(t testing.TB, at string, streamed bool) anyData{
	"our client": func(t testing.TB, at string, streamed bool) anyData {
		t.Helper()
		opts := &remote.ReadClientOptions{Mode: remote.ModeSamples}
		if streamed {
			opts.Mode = remote.ModeStreamed
		}
		client, err := remote.NewReadClient(at, opts)
		require.NoError(t, err)
		all := anyData{}
		set := client.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, ourMatchers(t, []matcher{everything})...)
		for s, err := range set.All() {
			require.NoError(t, err)
			it := s.Iterator(nil)
			all[keyOfOurs(s.Labels())] = ourPoints(it)
			require.NoError(t, it.Err())
		}
		require.NoError(t, set.Err())
		return all
	},
	"their client": func(t testing.TB, at string, streamed bool) anyData {
		t.Helper()
		q, err := theirClient(t, at, streamed).Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		return dumpTheirsAny(t, q)
	},
}

// wired is what of the samples goes over the network: all of them in chunks. An answer in samples
// has no start timestamps, and the reference leaves out every float that is zero, with its sign.
func (d anyData) wired(streamed bool) anyData {
	if streamed {
		return d
	}
	out := anyData{}
	for key, ps := range d {
		for _, p := range ps {
			p.ST = 0
			p.Value = strings.ReplaceAll(p.Value, textOfNumber(math.Copysign(0, -1)), textOfNumber(0.0))
			out[key] = append(out[key], p)
		}
	}
	return out
}

// Both clients read samples of every kind, several of them in one series, from both servers of one
// directory, in both forms.
func TestRemoteRead_HistogramsAreReadByBoth(t *testing.T) {
	for i := range scaled(6) {
		starts := i%2 > 0
		g := newAnyGenerator(seed(t, 9500+uint64(i)), starts)
		by := anyWriters(starts)
		dir, want := t.TempDir(), anyData{}
		e := by[i/2%2].open(t, dir)
		for k := range 60 {
			if k == 40 {
				e.flush()
				g.flushed()
			}
			rows := g.commit()
			e.commitAny(g.set, rows)
			want.add(g.set, rows)
		}
		synced(t, e)
		e.close()
		ours, theirs := by[0].open(t, copyDir(t, dir)), by[1].open(t, dir)
		servers := map[string]http.Handler{"our server": ourHandler(ours), "their server": theirHandler(t, theirs)}
		for name, h := range servers {
			s := httptest.NewServer(h)
			for peer, read := range anyPeers {
				for _, streamed := range []bool{true, false} {
					got := read(t, s.URL, streamed).wired(streamed)
					msg := fmt.Sprintf("%s, %s, streamed: %v", name, peer, streamed)
					requireEqualAny(t, want.wired(streamed).gauges(), got.gauges(), msg)
				}
			}
			s.Close()
		}
		ours.close()
		theirs.close()
	}
}
