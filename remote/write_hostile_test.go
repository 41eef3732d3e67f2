package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// hostileBodies are of requests that nobody means well with: within all limits, and as much as
// these allow, or a good part of it. Each is another one each round.
var hostileBodies = []struct {
	name string
	n    int // items
	in   func(n, round int) []sentSeries
}{
	{"exemplars of one time", 24_000, func(n, round int) []sentSeries {
		return hostileExemplars(n, round, func(int) int64 { return 0 })
	}},
	{"exemplars whose times fall", 24_000, func(n, round int) []sentSeries {
		return hostileExemplars(n, round, func(i int) int64 { return int64(-i) })
	}},
	{"new series", 60_000, func(n, round int) []sentSeries {
		return manySeries(n, func(i int, s *sentSeries) {
			s.pairs = append(s.pairs, "round", fmt.Sprint(round), "x", fmt.Sprint(i))
			s.samples = []tsdb.Sample{at(writeNewest, 1)}
		})
	}},
	{"late samples of one series", 200_000, func(n, round int) []sentSeries {
		s := one(fmt.Sprint("late", round), at(writeNewest, 1))
		for i := range n {
			s.samples = append(s.samples, at(writeNewest-1-int64(i), float64(i)))
		}
		return []sentSeries{s}
	}},
	{"late samples of many series", 40_000, func(n, round int) []sentSeries {
		return manySeries(n, func(i int, s *sentSeries) {
			s.pairs = append(s.pairs, "late", fmt.Sprint(i%(n/4)))
			s.samples = []tsdb.Sample{at(writeNewest-int64(4*round+i/(n/4)), 1)}
		})
	}},
	{"metadata", 60_000, func(n, round int) []sentSeries {
		return manySeries(n, func(i int, s *sentSeries) {
			s.pairs[1] = fmt.Sprint("family", round, "_", i)
			s.samples = []tsdb.Sample{at(writeNewest, 1)}
			s.meta = tsdb.Metadata{Type: tsdb.MetricGauge, Help: fmt.Sprint("What number ", i, " is about.")}
		})
	}},
}

func hostileExemplars(n, round int, behind func(i int) int64) []sentSeries {
	s := one("hostile", at(writeNewest+int64(round), 1))
	for i := range n {
		e := sentExemplar{[]string{"trace_id", fmt.Sprint(round, "-", i)}, writeNewest + behind(i), 1}
		s.exemplars = append(s.exemplars, e)
	}
	return []sentSeries{s}
}

func manySeries(n int, fill func(i int, s *sentSeries)) []sentSeries {
	list := make([]sentSeries, n)
	for i := range list {
		list[i].pairs = append(make([]string, 0, 6), labels.MetricName, "hostile")
		fill(i, &list[i])
	}
	return list
}

// encodeV1Hostile encodes a WriteRequest, with metadata, which 1.0 has beside all series.
func encodeV1Hostile(all ...sentSeries) []byte {
	b := encodeV1(all...)
	for i := range all {
		if m := all[i].meta; m != (tsdb.Metadata{}) {
			meta := appendString(appendInt(nil, 1, int64(m.Type)), 2, all[i].pairs[1])
			b = appendPart(b, 3, appendString(meta, 4, m.Help))
		}
	}
	return b
}

// otlpTextOf is the same as gauges in JSON.
func otlpTextOf(all ...sentSeries) []byte {
	var metrics []string
	for _, s := range all {
		var attributes, exemplars, points []string
		for i := 2; i < len(s.pairs); i += 2 {
			attributes = append(attributes, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, s.pairs[i], s.pairs[i+1]))
		}
		for _, e := range s.exemplars {
			exemplars = append(exemplars, fmt.Sprintf(`{"timeUnixNano":"%d000000","asDouble":%v,"filteredAttributes":[{"key":%q,"value":{"stringValue":%q}}]}`, e.t, e.v, e.pairs[0], e.pairs[1]))
		}
		for _, v := range s.samples {
			points = append(points, fmt.Sprintf(`{"timeUnixNano":"%d000000","asDouble":%v,"attributes":[%s],"exemplars":[%s]}`, v.T, v.V, strings.Join(attributes, ","), strings.Join(exemplars, ",")))
		}
		metrics = append(metrics, fmt.Sprintf(`{"name":%q,"description":%q,"gauge":{"dataPoints":[%s]}}`, s.pairs[1], s.meta.Help, strings.Join(points, ",")))
	}
	return otlpText(metrics...)
}

// otherClient asks for what has nothing to do with the requests under test, all the time.
type otherClient struct {
	db       *tsdb.DB
	writes   http.Handler
	asks     []func(i int) error
	slowest  []time.Duration
	answered []int
	late     time.Duration // how late somebody was who only waits: that is the machine, or the collector
}

func newOtherClient(db *tsdb.DB, writes http.Handler) *otherClient {
	c := &otherClient{db: db, writes: writes}
	c.asks = []func(int) error{c.write, c.query, func(int) error { c.db.Stats(); return nil }}
	c.answered = make([]int, len(c.asks))
	return c
}

func (c *otherClient) write(i int) error {
	s := one(fmt.Sprint("other", i%64), at(writeNewest+int64(i), 1))
	s.exemplars = []sentExemplar{{[]string{"trace_id", "other"}, writeNewest + int64(i), 1}}
	if w := send(c.writes, writeMediaType, encodeV1(s)); w.Code != http.StatusNoContent {
		return fmt.Errorf("%d: %s", w.Code, w.Body)
	}
	return nil
}

func (c *otherClient) query(i int) error {
	q, err := c.db.Querier(writeNewest, writeNewest+1<<30)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	set := q.Select(context.Background(), nil, labels.Equal(labels.MetricName, fmt.Sprint("other", i%64)))
	for set.Next() {
		if _, _, err := set.At().Last(); err != nil {
			return err
		}
	}
	return set.Err()
}

// beside asks as long as f takes, and notes the slowest answers.
func (c *otherClient) beside(t *testing.T, f func()) {
	c.slowest, c.late = make([]time.Duration, len(c.asks)), 0
	const pause = 5 * time.Millisecond
	var all sync.WaitGroup
	over := make(chan struct{})
	each := func(do func(waited time.Duration)) {
		all.Go(func() {
			for {
				begin := time.Now()
				select {
				case <-over:
					return
				case <-time.After(pause):
					do(time.Since(begin))
				}
			}
		})
	}
	for k, ask := range c.asks {
		each(func(time.Duration) {
			begin := time.Now()
			if err := ask(c.answered[k]); err != nil {
				t.Error("another client:", err)
			}
			c.slowest[k] = max(c.slowest[k], time.Since(begin))
			c.answered[k]++
		})
	}
	each(func(waited time.Duration) { c.late = max(c.late, waited-pause) })
	f()
	close(over)
	all.Wait()
}

// Beside each of these requests, over each protocol, what another client writes, asks for, and
// wants to know of the database has its answer within a second.
func TestWrite_HostileBodies_HoldNobodyUp(t *testing.T) {
	limit, part := time.Second, 1
	if underRace() {
		limit, part = 5*time.Second, 8
	}
	db, clock := openForWrites(t, tsdb.Options{Head: tsdb.HeadOptions{OutOfOrderWindow: time.Hour}})
	o := WriteOptions{Clock: clock}
	writes, otlp := NewWriteHandler(db, &o), NewOTLPHandler(db, &OTLPOptions{Write: o})
	protocols := []struct {
		name, media string
		h           http.Handler
		encode      func(...sentSeries) []byte
		status      int
	}{
		{"1.0", writeMediaType, writes, encodeV1Hostile, http.StatusNoContent},
		{"2.0", writeEncoders[1].contentType, writes, encodeV2, http.StatusNoContent},
		{"OTLP", otlpProtobuf, otlp, func(all ...sentSeries) []byte {
			message, err := otlpMessage(otlpTextOf(all...))
			require.NoError(t, err)
			return message
		}, http.StatusOK},
		{"OTLP in JSON", otlpJSON, otlp, otlpTextOf, http.StatusOK},
	}
	other, round := newOtherClient(db, writes), 0
	for _, hostile := range hostileBodies {
		for _, p := range protocols {
			t.Run(hostile.name+", "+p.name, func(t *testing.T) {
				// Who is held up is held up each time; a machine that does other things is not.
				for try := 1; ; try++ {
					round++
					body := p.encode(hostile.in(hostile.n/part, round)...)
					begin := time.Now()
					other.beside(t, func() {
						var answer *httptest.ResponseRecorder
						if p.h == writes {
							answer = sendBody(p.h, p.media, snappy.Encode(nil, body))
						} else {
							answer = sendOTLP(p.h, body, "Content-Type", p.media)
						}
						require.Equal(t, p.status, answer.Code, "%.300s", answer.Body)
					})
					t.Logf("%d bytes in %s; answers in %v, a mere wait is %s late", len(body), time.Since(begin), other.slowest, other.late)
					slowest := max(other.slowest[0], other.slowest[1], other.slowest[2])
					if slowest < limit+other.late {
						break
					}
					require.Less(t, try, 3, "%s is too long", slowest)
				}
			})
		}
	}
	for k, n := range other.answered {
		require.Greater(t, n, 10, "question %d", k)
	}
}
