package bench

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// receiver is an engine that takes remote writes.
type receiver interface {
	writeHandler() http.Handler
	otlpHandler() http.Handler
}

// writeScrapes is the most samples of each series that are sent while it is measured: bodies are made
// beforehand, and take room.
const writeScrapes = 120

// writeVersion is a message of a protocol by which samples are sent, as the field's own types write
// it.
type writeVersion struct {
	row, title, contentType, encoding string

	handler func(receiver) http.Handler
	encode  func(sets []labels.Labels, t int64, vs []float64) ([]byte, error)
}

var writeVersions = []writeVersion{
	{"write/v1", "remote write 1.0", "application/x-protobuf", "snappy", receiver.writeHandler, encodeWriteV1},
	{"write/v2", "remote write 2.0", "application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy", receiver.writeHandler, encodeWriteV2},
	{"write/otlp", "OTLP gauges", "application/x-protobuf", "", receiver.otlpHandler, encodeOTLP},
}

const nameLabel = "__name__"

// encodeOTLP makes a gauge of each series, whose labels are attributes of its point.
func encodeOTLP(sets []labels.Labels, t int64, vs []float64) ([]byte, error) {
	all := pmetric.NewMetrics()
	scope := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
	for i, ls := range sets {
		m := scope.Metrics().AppendEmpty()
		m.SetName(ls.Get(nameLabel))
		p := m.SetEmptyGauge().DataPoints().AppendEmpty()
		p.SetTimestamp(pcommon.NewTimestampFromTime(time.UnixMilli(t)))
		p.SetDoubleValue(vs[i])
		ls.Range(func(l labels.Label) {
			if l.Name != nameLabel {
				p.Attributes().PutStr(l.Name, l.Value)
			}
		})
	}
	b, err := pmetricotlp.NewExportRequestFromMetrics(all).MarshalProto()
	return b, errors.Wrap(err, "encode OTLP")
}

func encodeWriteV1(sets []labels.Labels, t int64, vs []float64) ([]byte, error) {
	req := prompb.WriteRequest{Timeseries: make([]prompb.TimeSeries, len(sets))}
	for i, ls := range sets {
		req.Timeseries[i] = prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil), Samples: []prompb.Sample{{Timestamp: t, Value: vs[i]}}}
	}
	b, err := req.Marshal()
	return b, errors.Wrap(err, "encode write")
}

func encodeWriteV2(sets []labels.Labels, t int64, vs []float64) ([]byte, error) {
	symbols := writev2.NewSymbolTable()
	req := writev2.Request{Timeseries: make([]writev2.TimeSeries, len(sets))}
	for i, ls := range sets {
		req.Timeseries[i] = writev2.TimeSeries{LabelsRefs: symbols.SymbolizeLabels(ls, nil), Samples: []writev2.Sample{{Timestamp: t, Value: vs[i]}}}
	}
	req.Symbols = symbols.Symbols()
	b, err := req.Marshal()
	return b, errors.Wrap(err, "encode write")
}

// quiet is a ResponseWriter that keeps the status.
type quiet struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (q *quiet) Header() http.Header         { return q.header }
func (q *quiet) WriteHeader(status int)      { q.status = status }
func (q *quiet) Write(b []byte) (int, error) { return q.text.Write(b) }

// write measures remote writes of known series, 1,000 samples a request, without a network.
func write(t task) (m measures, err error) {
	m = measures{}
	t.Samples = min(t.Samples, writeScrapes)
	for i, v := range writeVersions {
		one := t
		one.Dir = filepath.Join(t.Dir, strconv.Itoa(i))
		if err := one.write(v, m); err != nil {
			return nil, errors.WithMessage(err, v.row)
		}
	}
	return m, nil
}

func (t task) write(v writeVersion, m measures) (err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return err
	}
	defer closing(e, &err)
	h := v.handler(e.(receiver))
	sets := make([]labels.Labels, t.Series)
	for i := range sets {
		sets[i] = labels.FromStrings(pairs(i)...)
	}
	values, vs := newValues(t.Series, seed), make([]float64, t.Series)
	at := int64(startMillis)
	scrapeBodies := func(keep bool) (bodies [][]byte, err error) {
		values.scrape(vs)
		for from := 0; from < len(sets); from += perCommit {
			to := min(from+perCommit, len(sets))
			b, err := v.encode(sets[from:to], at, vs[from:to])
			if err != nil {
				return nil, err
			}
			if v.encoding != "" {
				b = snappy.Encode(nil, b)
			}
			if keep {
				if b, err = keepOffHeap(b); err != nil {
					return nil, err
				}
			}
			bodies = append(bodies, b)
		}
		at += stepMillis
		return bodies, nil
	}
	for range warmScrapes {
		bodies, err := scrapeBodies(false)
		if err == nil {
			err = v.send(h, bodies)
		}
		if err != nil {
			return err
		}
	}
	var all [][]byte
	for range t.Samples {
		bodies, err := scrapeBodies(true)
		if err != nil {
			return err
		}
		all = append(all, bodies...)
	}
	before := nowCollected()
	if err := v.send(h, all); err != nil {
		return err
	}
	cost := now().since(before)
	samples := float64(t.Series * t.Samples)
	m[v.row+"/cpu"] = samples / cost.cpu.Seconds()
	m[v.row+"/wall"] = samples / cost.wall.Seconds()
	m[v.row+"/garbage"] = float64(cost.allocBytes) / samples
	m[v.row+"/allocs"] = float64(cost.allocs) / samples
	return t.arrived(e, v, m)
}

// arrived checks that all is stored. Engines must agree on what.
func (t task) arrived(e engine, v writeVersion, m measures) error {
	res, err := e.read(always(readSamples, matcher{"!=", "__name__", ""}))
	if err != nil {
		return err
	}
	if want := t.Series * (warmScrapes + t.Samples); res.series != t.Series || res.samples != want {
		return errors.Errorf("%d series with %d samples are stored, want %d with %d", res.series, res.samples, t.Series, want)
	}
	res.note(m, v.row)
	return nil
}

// send sends bodies, one after the other.
func (v writeVersion) send(h http.Handler, bodies [][]byte) error {
	for _, body := range bodies {
		r, err := http.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
		if err != nil {
			return errors.Wrap(err, "make request")
		}
		r.Header.Set("Content-Type", v.contentType)
		if v.encoding != "" {
			r.Header.Set("Content-Encoding", v.encoding)
		}
		w := &quiet{header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(w, r)
		if w.status/100 != 2 {
			return errors.Errorf("status %d: %s", w.status, &w.text)
		}
	}
	return nil
}

// keepOffHeap copies bytes to where the garbage collector does not see them.
func keepOffHeap(b []byte) ([]byte, error) {
	room, err := offHeap((len(b) + 7) / 8)
	if err != nil {
		return nil, err
	}
	kept := unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), len(b))
	copy(kept, b)
	return kept, nil
}
