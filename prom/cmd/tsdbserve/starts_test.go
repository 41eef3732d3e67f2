package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// sendCounter sends a counter by remote write 2.0, with the time since when it counts: a sample
// each ten seconds.
func sendCounter(t *testing.T, s *served, from time.Time, samples int) {
	t.Helper()
	for i := range samples {
		symbols := writev2.NewSymbolTable()
		at := from.Add(time.Duration(i) * 10 * time.Second)
		req := writev2.Request{Timeseries: []writev2.TimeSeries{{
			LabelsRefs: symbols.SymbolizeLabels(labels.FromStrings("__name__", "requests_total"), nil),
			Samples:    []writev2.Sample{{Timestamp: at.UnixMilli(), Value: float64(i), StartTimestamp: from.UnixMilli()}},
		}}}
		req.Symbols = symbols.Symbols()
		message, err := req.Marshal()
		require.NoError(t, err)
		r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(snappy.Encode(nil, message)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
		r.Header.Set("Content-Encoding", "snappy")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
	}
}

// sendOTLPCounter sends the same by OTLP, one sample.
func sendOTLPCounter(t *testing.T, s *served, from time.Time) {
	t.Helper()
	body := fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"calls","sum":{"aggregationTemporality":2,"isMonotonic":true,
		"dataPoints":[{"startTimeUnixNano":"%d","timeUnixNano":"%d","asInt":"7"}]}}]}]}]}`, from.UnixNano(), from.Add(time.Second).UnixNano())
	resp, err := http.Post(s.url+"/api/v1/otlp/v1/metrics", "application/json", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// bucketFlags are those of a server that uploads to a directory, and that directory.
func bucketFlags(t *testing.T) (flags []string, bucket string) {
	dir := t.TempDir()
	file, bucketFile, bucket := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "bucket.yml"), filepath.Join(dir, "bucket")
	require.NoError(t, os.WriteFile(file, []byte("global: {external_labels: {region: eu}}"), 0o600))
	require.NoError(t, os.WriteFile(bucketFile, fmt.Appendf(nil, "type: FILESYSTEM\nconfig: {directory: %q}", bucket), 0o600))
	return []string{"--storage.tsdb.path", filepath.Join(dir, "data"), "--config.file", file, "--objstore.config-file", bucketFile}, bucket
}

// What collectors send gets into the bucket, whatever they say of since when it counts.
func TestServe_UploadsWhatComesWithStartTimestamps(t *testing.T) {
	flags, bucket := bucketFlags(t)
	flags = append(flags, "--web.enable-remote-write-receiver", "--web.enable-otlp-receiver", "--storage.tsdb.min-block-duration=1m", "--storage.tsdb.max-block-duration=1m")
	s := start(t, flags...)
	from := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
	sendOTLPCounter(t, s, from)
	sendCounter(t, s, from, 50)
	require.Zero(t, s.stop(), "%s", s.log)
	db, err := tsdb.Open(flags[1], &tsdb.Options{Blocks: tsdb.BlockOptions{Range: time.Minute, MaxRange: time.Minute}})
	require.NoError(t, err)
	require.NoError(t, db.Flush(t.Context())) // the server would, in a while
	blocks := db.Blocks()
	require.NoError(t, db.Close())
	require.NotEmpty(t, blocks)

	s = start(t, flags...)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(blocks, func(b tsdb.BlockMeta) bool {
			_, err := os.Stat(filepath.Join(bucket, b.ULID.String(), "meta.json"))
			return err != nil
		})
	}, 20*time.Second, 20*time.Millisecond)
	for _, name := range []string{"tsdb_ship_skipped_blocks", "tsdb_ship_blocks_skipped_total", "tsdb_ship_lost_blocks_total"} {
		require.Equal(t, "0", s.metric(name), name)
	}
	require.Zero(t, s.stop(), "%s", s.log)
	require.NotContains(t, s.log.String(), "level=WARN")
}

// With st-storage it does not: that is said at the start, and of the block.
func TestServe_SaysThatStartTimestampsAreNotUploaded(t *testing.T) {
	flags, _ := bucketFlags(t)
	flags = append(flags, "--web.enable-remote-write-receiver", "--enable-feature=st-storage")
	s := start(t, flags...)
	require.Contains(t, s.log.String(), "blocks with start timestamps are not uploaded")
	sendCounter(t, s, time.Now().Truncate(2*time.Hour), 5) // in one block
	require.Zero(t, s.stop(), "%s", s.log)
	db, err := tsdb.Open(flags[1], nil)
	require.NoError(t, err)
	require.NoError(t, db.Flush(t.Context()))
	require.NoError(t, db.Close())

	s = start(t, flags...)
	require.Eventually(t, func() bool { return s.metric("tsdb_ship_skipped_blocks") == "1" }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, "1", s.metric("tsdb_ship_blocks_skipped_total"))
	require.Zero(t, s.stop(), "%s", s.log)
	require.Contains(t, s.log.String(), "encoding 4 (XOR2)")
}

// chunkTypes are the encodings of the chunks that a remote read gives of a server.
func chunkTypes(t *testing.T, s *served) (types []prompb.Chunk_Encoding) {
	t.Helper()
	message, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
		Queries:               []*prompb.Query{{EndTimestampMs: time.Now().Add(time.Hour).UnixMilli(), Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "requests_total"}}}},
	}).Marshal()
	require.NoError(t, err)
	resp, err := http.Post(s.url+"/api/v1/read", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, message)))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for from := bufio.NewReader(resp.Body); ; {
		size, err := binary.ReadUvarint(from)
		if err == io.EOF {
			return types
		}
		require.NoError(t, err)
		frame := make([]byte, 4+size) // behind a checksum
		_, err = io.ReadFull(from, frame)
		require.NoError(t, err)
		var res prompb.ChunkedReadResponse
		require.NoError(t, res.Unmarshal(frame[4:]))
		for _, series := range res.ChunkedSeries {
			for _, c := range series.Chunks {
				types = append(types, c.Type)
			}
		}
	}
}

// Start timestamps are stored with st-storage, and a remote read has them where no Thanos reads.
func TestServe_RemoteReadsOfStartTimestamps(t *testing.T) {
	labelled := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(labelled, []byte("global: {external_labels: {region: eu}}"), 0o600))
	for name, test := range map[string]struct {
		flags []string
		want  prompb.Chunk_Encoding
	}{
		"they are not stored":    {nil, prompb.Chunk_XOR},
		"they are":               {[]string{"--enable-feature=st-storage"}, prompb.Chunk_XOR2},
		"a sidecar may read too": {[]string{"--enable-feature=st-storage", "--config.file", labelled}, prompb.Chunk_XOR},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, append(test.flags, "--storage.tsdb.path", filepath.Join(t.TempDir(), "data"), "--web.enable-remote-write-receiver")...)
			sendCounter(t, s, time.Now().Truncate(2*time.Hour), 5) // in one block
			require.Equal(t, []prompb.Chunk_Encoding{test.want}, chunkTypes(t, s))
			require.Zero(t, s.stop(), "%s", s.log)
		})
	}
}
