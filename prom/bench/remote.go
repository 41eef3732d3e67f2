package bench

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/prompb"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// remoteRanges is how many blocks of blockRange are served.
const remoteRanges = 4

// remoteRead is one request of the rows about remote read.
type remoteRead struct {
	row, what string
	mode      remote.Mode
	ranges    int // of blockRange, from blockStart on; 0: the head
}

// times is how often the request is made while it is measured: a streamed answer takes so
// little that starting the client would count.
func (r remoteRead) times() int {
	if r.mode == remote.ModeStreamed {
		return 5
	}
	return 1
}

// remoteReads are the requests, for blocks and for a head.
func remoteReads(head bool) []remoteRead {
	if head {
		return []remoteRead{
			{"remotehead/chunks", "streamed chunks, from the head", remote.ModeStreamed, 0},
			{"remotehead/samples", "samples, from the head", remote.ModeSamples, 0},
		}
	}
	return []remoteRead{
		{"remote/chunks2h", "streamed chunks, 2 hours", remote.ModeStreamed, 1},
		{"remote/chunks", "streamed chunks, 8 hours", remote.ModeStreamed, remoteRanges},
		{"remote/samples2h", "samples, 2 hours", remote.ModeSamples, 1},
		{"remote/samples", "samples, 8 hours", remote.ModeSamples, remoteRanges},
	}
}

// bounds is the closed range of a request.
func (r remoteRead) bounds() (mint, maxt int64) {
	if r.ranges == 0 {
		return math.MinInt64, math.MaxInt64
	}
	return blockStart, blockStart + int64(r.ranges)*blockRange - 1
}

// fillRemote writes a directory with blocks of eight hours.
func fillRemote(t task) (measures, error) {
	ranges := make([]int, remoteRanges)
	for i := range ranges {
		ranges[i] = t.Samples
	}
	return nil, t.fillRanges(ranges)
}

// serveBlocks measures answers to remote reads of blocks over the loopback. The client is
// another process, so that this one has only what the server needs.
func serveBlocks(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	return t.serve(e, remoteReads(false))
}

// serveHead is serveBlocks with samples that are in the head.
func serveHead(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	if err := t.feedBlock(e, newValues(t.Series, seed), blockStart, t.Samples); err != nil {
		return nil, err
	}
	return t.serve(e, remoteReads(true))
}

func (t task) serve(e engine, reads []remoteRead) (m measures, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Wrap(err, "listen")
	}
	server := &http.Server{Handler: e.readHandler()}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		closeErr := server.Close()
		<-done
		if err == nil {
			err = errors.Wrap(closeErr, "close server")
		}
	}()
	m = measures{}
	for _, r := range reads {
		client := task{Kind: "read", Engine: t.Engine, URL: "http://" + listener.Addr().String(), Mode: int(r.mode)}
		client.Mint, client.Maxt = r.bounds()
		if err := r.measure(client, m); err != nil {
			return nil, errors.WithMessage(err, r.row)
		}
	}
	return m, nil
}

// measure does one read whose answer is looked at, and then those that cost.
func (r remoteRead) measure(client task, m measures) error {
	found, err := client.runInChild(context.Background())
	if err != nil {
		return err
	}
	if found["series"] == 0 {
		return errors.New("nothing was found")
	}
	client.Kind, client.Times = "discard", r.times()
	heap := watchHeap()
	before := now()
	got, err := client.runInChild(context.Background())
	cost := now().since(before)
	peak := heap.stop()
	if err != nil {
		return err
	}
	times := float64(client.Times)
	m[r.row+"/cpu"] = cost.cpu.Seconds() / times
	m[r.row+"/wall"] = got["wall"]
	m[r.row+"/heap"] = peak
	m[r.row+"/garbage"] = float64(cost.allocBytes) / times
	m[r.row+"/bytes"] = got["bytes"]
	// Not rows: both engines must agree on them.
	m[r.row+"/series"] = found["series"]
	m[r.row+"/samples"] = found["samples"]
	m[r.row+"/check"] = found["check"]
	return nil
}

// readRemote reads an answer, and counts what is in it.
func readRemote(t task) (measures, error) {
	client, err := remote.NewReadClient(t.URL, &remote.ReadClientOptions{Mode: remote.Mode(t.Mode)})
	if err != nil {
		return nil, err
	}
	set := client.Select(context.Background(), t.Mint, t.Maxt, nil, labels.NotEqual("__name__", ""))
	var series, samples int
	var sum uint64
	batch := chunkenc.NewBatch(0)
	for set.Next() {
		series++
		it := set.At().Iterator(nil)
		for it.NextBatch(batch) != chunkenc.ValNone {
			samples += batch.Len()
			for i, v := range batch.V {
				sum += math.Float64bits(v) + uint64(batch.T[i])
			}
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return measures{"series": float64(series), "samples": float64(samples), "check": float64(sum >> 11)}, set.Err()
}

// discardRemote takes answers as fast as they come, one after the other, and looks at nothing.
// What it gives is of one of them.
func discardRemote(t task) (measures, error) {
	body, err := t.readRequest()
	if err != nil {
		return nil, err
	}
	start, n := time.Now(), int64(0)
	for range t.Times {
		if n, err = discardAnswer(t.URL, body); err != nil {
			return nil, err
		}
	}
	return measures{"wall": time.Since(start).Seconds() / float64(t.Times), "bytes": float64(n)}, nil
}

// readRequest is the body of a request for everything in a range.
func (t task) readRequest() ([]byte, error) {
	request := &prompb.ReadRequest{
		Queries: []*prompb.Query{{
			StartTimestampMs: t.Mint, EndTimestampMs: t.Maxt,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_NEQ, Name: "__name__"}},
		}},
	}
	if remote.Mode(t.Mode) == remote.ModeStreamed {
		request.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	}
	body, err := request.Marshal()
	return snappy.Encode(nil, body), errors.Wrap(err, "encode request")
}

// discardAnswer returns how many bytes an answer has.
func discardAnswer(url string, body []byte) (int64, error) {
	res, err := http.Post(url, "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		return 0, errors.Wrap(err, "ask server")
	}
	n, err := io.Copy(io.Discard, res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.Errorf("status %s", res.Status)
	}
	return n, errors.Wrap(err, "read answer")
}
