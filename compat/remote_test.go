package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/client_golang/prometheus"
	configutil "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"

	theirconfig "github.com/prometheus/prometheus/config"
	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	theirremote "github.com/prometheus/prometheus/storage/remote"
)

// remoteLabels are what the servers add to their series where a test wants some.
var remoteLabels = []string{"region", "eu", "replica", "r0"}

// ourHandler serves a database of ours.
func ourHandler(e blockEngine, external ...string) http.Handler {
	return remote.ReadHandler(e.(*ours).db, &remote.ReadOptions{ExternalLabels: labels.FromStrings(external...)})
}

// theirHandler serves a database of the reference.
func theirHandler(t testing.TB, e blockEngine, external ...string) http.Handler {
	t.Helper()
	config := theirconfig.Config{GlobalConfig: theirconfig.GlobalConfig{ExternalLabels: theirlabels.FromStrings(external...)}}
	return theirremote.NewReadHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), e.(*theirs).db,
		func() theirconfig.Config { return config }, 5e7, 10, 1<<20)
}

// remotePeer reads from a server.
type remotePeer func(t testing.TB, at string, streamed bool, mint, maxt int64, ms ...matcher) data

// remotePeers are the clients of both sides.
func remotePeers(external ...string) map[string]remotePeer {
	return map[string]remotePeer{
		"our client": func(t testing.TB, at string, streamed bool, mint, maxt int64, ms ...matcher) data {
			t.Helper()
			opts := &remote.ReadClientOptions{Mode: remote.ModeSamples, ExternalLabels: labels.FromStrings(external...)}
			if streamed {
				opts.Mode = remote.ModeStreamed
			}
			client, err := remote.NewReadClient(at, opts)
			require.NoError(t, err)
			all, err := readRemote(client.Querier(mint, maxt).Select(context.Background(), nil, ourMatchers(t, ms)...))
			require.NoError(t, err)
			return all
		},
		"their client": func(t testing.TB, at string, streamed bool, mint, maxt int64, ms ...matcher) data {
			t.Helper()
			q, err := theirClient(t, at, streamed, external...).Querier(mint, maxt)
			require.NoError(t, err)
			return dumpTheirs(t, q, ms...)
		},
	}
}

// theirClient is the reference's client of remote read, in one of the two forms.
func theirClient(t testing.TB, at string, streamed bool, external ...string) storage.SampleAndChunkQueryable {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	types := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES}
	if streamed {
		types[0] = prompb.ReadRequest_STREAMED_XOR_CHUNKS
	}
	client, err := theirremote.NewReadClient("test", &theirremote.ClientConfig{
		URL: &configutil.URL{URL: u}, Timeout: model.Duration(serverPatience), ChunkedReadLimit: 5e7, AcceptedResponseTypes: types,
	})
	require.NoError(t, err)
	return theirremote.NewSampleAndChunkQueryableClient(client, theirlabels.FromStrings(external...), nil, true, nil)
}

// readRemote reads a set of our client. Series of which nothing is in the range are left
// out.
func readRemote(set *remote.SeriesSet) (data, error) {
	all := data{}
	var it chunkenc.Iterator
	for s, err := range set.All() {
		if err != nil {
			return nil, err
		}
		key := keyOfOurs(s.Labels())
		it = s.Iterator(it)
		for it.Next() != chunkenc.ValNone {
			ts, v := it.At()
			all[key] = append(all[key], point{ts, math.Float64bits(v)})
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return all, set.Err()
}

// remoteSelections are ranges and matchers to read.
var remoteSelections = []struct {
	name       string
	mint, maxt int64
	ms         []matcher
}{
	{"everything", math.MinInt64, math.MaxInt64, []matcher{everything}},
	{"a range", worldStart + 90*minute, worldStart + 3*hour, []matcher{everything}},
	{"a range in the head", worldStart + 6*hour, worldStart + 7*hour + 30*minute, []matcher{{"!=", "mod", "1"}}},
	{"one sample", worldStart, worldStart, []matcher{{"=~", "n", "[0-9]"}}},
	{"some", worldStart, worldStart + 30*hour, []matcher{{"=~", "mod", "[0-4]"}, {"!~", "n", "1.*"}, {"=", "none", ""}}},
	{"nothing", worldStart, worldStart + 30*hour, []matcher{{"=", "mod", "none"}}},
	{"before all", 0, 1000, []matcher{everything}},
}

// remoteWorld has blocks with deletes, and a head.
func remoteWorld(t *testing.T, open opener, base uint64) *world {
	t.Helper()
	w := newWorld(t, open, plan{Seed: seed(t, base), Series: 60})
	w.append(40, 5*hour)
	w.e.flush()
	w.append(30, 2*hour)
	w.delete(worldStart+hour, worldStart+3*hour, matcher{"=", "mod", "3"})
	w.delete(worldStart+5*hour, worldStart+6*hour, matcher{"=~", "n", "1.|2"})
	w.append(20, hour)
	return w
}

// Both clients read both servers of one directory, in both modes: all answers are equal.
func TestRemoteRead_ClientsAndServersOfBothSidesAgree(t *testing.T) {
	w := remoteWorld(t, openOurBlocks, 9100)
	servers := map[string]http.Handler{
		"our server":   ourHandler(w.e),
		"their server": theirHandler(t, openTheirBlocks(t, copyDir(t, w.dir))),
	}
	for server, h := range servers {
		s := httptest.NewServer(h)
		defer s.Close()
		for client, read := range remotePeers() {
			for _, streamed := range []bool{true, false} {
				mode := map[bool]string{true: "streamed", false: "samples"}[streamed]
				t.Run(server+", "+client+", "+mode, func(t *testing.T) {
					for _, c := range remoteSelections {
						want := w.e.(*ours).query(c.mint, c.maxt, c.ms...)
						if !streamed && server == "their server" {
							want = want.changed(point.wire)
						}
						requireEqual(t, want, read(t, s.URL, streamed, c.mint, c.maxt, c.ms...), c.name)
					}
				})
			}
		}
	}
	requireEqual(t, w.want, w.e.dump(), "what was compared to")
}

// The same with labels that only the outside knows: clients that know them, clients that
// ask for one of them, clients that know others.
func TestRemoteRead_ExternalLabelsAreHandledAlike(t *testing.T) {
	w := remoteWorld(t, openOurBlocks, 9101)
	servers := map[string]http.Handler{
		"our server":   ourHandler(w.e, remoteLabels...),
		"their server": theirHandler(t, openTheirBlocks(t, copyDir(t, w.dir)), remoteLabels...),
	}
	for _, known := range [][]string{nil, remoteLabels, {"region", "us"}} {
		for _, ms := range [][]matcher{{everything}, {everything, {"=", "region", "eu"}}, {everything, {"=", "region", "us"}}, {everything, {"=~", "region", "e.*"}}, {everything, {"=", "replica", ""}}} {
			for _, streamed := range []bool{true, false} {
				var first data
				var from string
				for server, h := range servers {
					s := httptest.NewServer(h)
					for client, read := range remotePeers(known...) {
						got := read(t, s.URL, streamed, math.MinInt64, math.MaxInt64, ms...).changed(point.wire)
						if from == "" {
							first, from = got, server+", "+client
						}
						requireEqual(t, first, got, from+" and "+server+", "+client+": "+strings.Join(known, " "))
					}
					s.Close()
				}
			}
		}
	}
}

// cutting ends the connection in the middle of an answer.
type cutting struct {
	http.ResponseWriter
	left int // bytes
}

func (c *cutting) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.ResponseWriter.Write(b)
	}
	_, _ = c.ResponseWriter.Write(b[:c.left])
	c.Flush()
	panic(http.ErrAbortHandler)
}

func (c *cutting) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

// Whoever answers, and wherever it breaks off: our client never takes a part for the whole.
func TestRemoteRead_AnAnswerThatBreaksOffIsAnError(t *testing.T) {
	w := remoteWorld(t, openTheirBlocks, 9102)
	h := theirHandler(t, w.e)
	for _, mode := range []remote.Mode{remote.ModeStreamed, remote.ModeSamples} {
		for n, cut := 0, true; cut; n = n*5/4 + 1 {
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { h.ServeHTTP(&cutting{rw, n}, r) }))
			client, err := remote.NewReadClient(s.URL, &remote.ReadClientOptions{Mode: mode})
			require.NoError(t, err)
			got, err := readRemote(client.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, ourMatchers(t, []matcher{everything})...))
			if cut = err != nil; cut {
				require.ErrorIs(t, err, remote.ErrAnswer, n)
			} else {
				requireEqual(t, w.want.changed(point.wire), got.changed(point.wire), "the whole answer")
				require.Greater(t, n, 1000)
			}
			s.Close()
		}
	}
}

// A server of Prometheus answers our client.
func TestRemoteRead_OurClientReadsAServer(t *testing.T) {
	w := remoteWorld(t, openTheirBlocks, 9103)
	s := startServer(t, copyDir(t, w.dir))
	for _, streamed := range []bool{true, false} {
		got := remotePeers()["our client"](t, s.url+"/api/v1/read", streamed, math.MinInt64, math.MaxInt64, everything)
		requireEqual(t, w.want.changed(point.wire), got.changed(point.wire), "read from the server")
	}
}

// A server of Prometheus that has nothing itself answers with what ours has: its query
// language, its own remote-read endpoint, promtool that asks it. It takes both modes, and asks
// for frames by itself.
func TestRemoteRead_AServerReadsOurs(t *testing.T) {
	w := remoteWorld(t, openOurBlocks, 9104)
	for _, external := range [][]string{nil, remoteLabels} {
		for _, streamed := range []bool{true, false} {
			between := &between{handler: ourHandler(w.e, external...), samples: !streamed}
			ours := httptest.NewServer(between)
			defer ours.Close()
			config := "global:\n  scrape_interval: 1h\n"
			if len(external) > 0 {
				config += "  external_labels: {region: eu, replica: r0}\n"
			}
			config += "remote_read: [{url: " + ours.URL + "/api/v1/read, read_recent: true}]\n"
			s := startServerWith(t, config, t.TempDir())

			at := worldStart + 9*hour
			want := w.want.withoutStale()
			requireEqual(t, want.changed(point.text), s.samples(`{n=~".+"}[30h]`, at), "PromQL")
			requireEqual(t, want.only(t, w.g.set, matcher{"=", "mod", "2"}).changed(point.text), s.samples(`{mod="2"}[30h]`, at), "PromQL with a matcher")
			require.InDelta(t, want.samples(), s.instant(`sum(count_over_time({n=~".+"}[30h]))`, at), 0)
			requireEqual(t, w.want.labelled(w.g.set, external...).changed(point.wire), s.dump().changed(point.wire), "handed on")
			requireEqual(t, want.changed(point.text), s.samplesByPromtool(`{n=~".+"}[30h]`, at), "promtool")
			between.requireAnswers(t)
		}
	}
}

// between stands between a client and a server of ours.
type between struct {
	handler http.Handler
	samples bool // the client seems to know samples only

	mu    sync.Mutex
	types map[string]int // of answers
}

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.samples {
		if err := samplesOnly(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	b.handler.ServeHTTP(w, r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.types == nil {
		b.types = map[string]int{}
	}
	b.types[w.Header().Get("Content-Type")]++
}

// samplesOnly changes a request to one of a client that knows no frames.
func samplesOnly(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if body, err = snappy.Decode(nil, body); err != nil {
		return err
	}
	var req prompb.ReadRequest
	if err := req.Unmarshal(body); err != nil {
		return err
	}
	req.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES}
	if body, err = req.Marshal(); err != nil {
		return err
	}
	body = snappy.Encode(nil, body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// requireAnswers requires that all answers were of the mode.
func (b *between) requireAnswers(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	want := "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
	if b.samples {
		want = "application/x-protobuf"
	}
	require.NotZero(t, b.types[want])
	require.Len(t, b.types, 1, b.types)
}

// labelled adds labels to all series.
func (d data) labelled(set []series, pairs ...string) data {
	all := data{}
	for _, s := range set {
		if ps := d[s.key]; len(ps) > 0 {
			builder := theirlabels.NewBuilder(s.theirs)
			for i := 0; i < len(pairs); i += 2 {
				builder.Set(pairs[i], pairs[i+1])
			}
			all[keyOfTheirs(builder.Labels())] = ps
		}
	}
	return all
}

// withoutStale leaves out what ends a series for PromQL.
func (d data) withoutStale() data {
	kept := data{}
	for key, ps := range d {
		for _, p := range ps {
			if p.V != value.StaleNaN {
				kept[key] = append(kept[key], p)
			}
		}
	}
	return kept
}

// only leaves out the series that do not match.
func (d data) only(t testing.TB, set []series, ms ...matcher) data {
	kept := data{}
	for _, s := range set {
		matches := true
		for _, m := range theirMatchers(t, ms) {
			matches = matches && m.Matches(s.theirs.Get(m.Name))
		}
		if ps := d[s.key]; matches && len(ps) > 0 {
			kept[s.key] = ps
		}
	}
	return kept
}

// matrix is what a range selector gives, as the query API says it.
type matrix []struct {
	Metric map[string]string
	Values [][2]any
}

func (m matrix) data(t testing.TB) data {
	t.Helper()
	all := data{}
	for _, r := range m {
		key := keyOfTheirs(theirlabels.FromMap(r.Metric))
		for _, p := range r.Values {
			v, err := strconv.ParseFloat(p[1].(string), 64)
			require.NoError(t, err)
			all[key] = append(all[key], point{int64(math.Round(p[0].(float64) * 1000)), math.Float64bits(v)}.text())
		}
	}
	return all
}

// samples is what a range selector gives at a time.
func (s *server) samples(expr string, at int64) data {
	s.t.Helper()
	var answer struct{ Result matrix }
	s.get("/api/v1/query", url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at)/1000, 'f', 3, 64)}}, &answer)
	return answer.Result.data(s.t)
}

// samplesByPromtool is samples, asked by promtool.
func (s *server) samplesByPromtool(expr string, at int64) data {
	s.t.Helper()
	cmd := exec.Command(promtoolProgram.build(s.t), "query", "-o", "json", "instant", "--time="+strconv.FormatInt(at/1000, 10), s.url, expr)
	out, err := cmd.Output()
	require.NoError(s.t, err)
	var answer matrix
	require.NoError(s.t, json.Unmarshal(out, &answer), "%s", out)
	return answer.data(s.t)
}
