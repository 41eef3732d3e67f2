package compat

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	rangeSeries   = 1000
	rangeSteps    = 1000
	rangeInterval = 15 * time.Second
	rangeSamples  = 2000 // of each series; the older half is in blocks
)

// rangeDir makes a data directory of counters, and says when the newest sample is.
func rangeDir(b *testing.B) (dir string, end time.Time) {
	dir = b.TempDir()
	db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(27, 3))
	values, refs := make([]float64, rangeSeries), make([]tsdb.SeriesRef, rangeSeries)
	end = time.Now().Truncate(rangeInterval)
	for i := range rangeSamples {
		app := db.Appender()
		t := end.Add(-time.Duration(rangeSamples-1-i) * rangeInterval).UnixMilli()
		for s := range values {
			values[s] += float64(r.IntN(500))
			ls := labels.FromStrings("__name__", "requests_total", "host", fmt.Sprint("h", s/10), "path", fmt.Sprint("/api/", s%10), "job", "web")
			refs[s], err = app.Append(refs[s], ls, t, values[s])
			require.NoError(b, err)
		}
		_, err := app.Commit(context.Background())
		require.NoError(b, err)
	}
	require.NoError(b, db.Flush(context.Background()))
	require.NoError(b, db.Close())
	return dir, end
}

// startOurs starts tsdbserve on a directory, and returns its address and its process.
func startOurs(b *testing.B, dir string) (base string, pid int) {
	cmd := exec.Command(tsdbserveProgram.build(b), "--storage.tsdb.path="+dir, "--web.listen-address=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		require.NoError(b, cmd.Wait())
	})
	lines := bufio.NewScanner(log)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	var seen bytes.Buffer
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if at := address.FindString(lines.Text()); at != "" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			require.Eventually(b, func() bool { // it listens before it has read the log
				resp, err := http.Get("http://" + at + "/-/ready")
				return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
			}, serverPatience, 10*time.Millisecond)
			return "http://" + at, cmd.Process.Pid
		}
	}
	require.FailNow(b, "tsdbserve ended", &seen)
	return "", 0
}

// anonymous returns the memory of a process that is no file's, in bytes.
func anonymous(b *testing.B, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(text))
	resident, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(b, err)
	shared, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(b, err)
	return (resident - shared) * int64(os.Getpagesize())
}

// watchPeak looks at the memory of a process until it is told to stop; that returns the most it
// saw.
func watchPeak(b *testing.B, pid int) (stop func() int64) {
	peak, done := int64(0), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, anonymous(b, pid))
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() int64 { close(done); all.Wait(); return peak }
}

// A range of 1,000 series at 1,000 steps, over HTTP, of this server and of Prometheus on copies of
// one directory: the time until the last byte of the answer came, and the peak of the process's
// memory.
func BenchmarkQueryRange(b *testing.B) {
	dir, end := rangeDir(b)
	other := startServer(b, copyDir(b, dir))
	ours, pid := startOurs(b, dir)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	ask := func(b *testing.B, base string, form url.Values, encoding string) (bytes int64) {
		req, err := http.NewRequest(http.MethodPost, base+"/api/v1/query_range", strings.NewReader(form.Encode()))
		require.NoError(b, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept-Encoding", encoding)
		resp, err := client.Do(req)
		require.NoError(b, err)
		defer resp.Body.Close()
		require.Equal(b, http.StatusOK, resp.StatusCode)
		bytes, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b, err)
		return bytes
	}
	for _, query := range []string{"requests_total", "rate(requests_total[5m])", "sum by (path) (rate(requests_total[5m]))"} {
		form := url.Values{
			"query": {query}, "step": {"15"}, "end": {fmt.Sprint(end.Unix())},
			"start": {fmt.Sprint(end.Add(-(rangeSteps - 1) * rangeInterval).Unix())},
		}
		for _, encoding := range []string{"identity", "gzip"} {
			for _, s := range []struct {
				name, base string
				pid        int
			}{{"ours", ours, pid}, {"prometheus", other.url, other.cmd.Process.Pid}} {
				b.Run(fmt.Sprintf("%s/%s/%s", query, encoding, s.name), func(b *testing.B) {
					stop := watchPeak(b, s.pid)
					var n int64
					for b.Loop() {
						n = ask(b, s.base, form, encoding)
					}
					b.ReportMetric(float64(stop())/(1<<20), "peak-MiB")
					b.ReportMetric(float64(n), "answer-B")
				})
			}
		}
	}
}
