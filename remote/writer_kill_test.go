package remote

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

var writerKills = flag.Int("writer.kills", 0, "how often a sender and a receiver are killed; 0: 12 times, or in a whole sweep 102 times")

func kills() int {
	switch {
	case *writerKills > 0:
		return *writerKills
	case sweep.Whole():
		return 102
	default:
		return 12
	}
}

// What a child does is in its environment.
const (
	childEnv     = "TSDB_TEST_WRITER"
	childSends   = "send"    // with the directory, the URL and the protocol behind it
	childTakes   = "receive" // with the directory and the address behind it
	childSeries  = 40
	childStep    = 500 // ms between the samples of a series
	childPause   = 500 * time.Microsecond
	childRange   = time.Minute
	killDeadline = 60 * time.Second
	awayFor      = 2 * time.Second
)

// runChild is the process of a child that is going to be killed.
func runChild() {
	parts := strings.Split(os.Getenv(childEnv), "|")
	db, err := tsdb.Open(parts[1], childOptions())
	if err != nil {
		log.Fatal(err)
	}
	if parts[0] == childTakes {
		log.Fatal(http.ListenAndServe(parts[2], NewWriteHandler(db, &WriteOptions{MaxFuture: -1})))
	}
	protocol, err := strconv.Atoi(parts[3])
	if err != nil {
		log.Fatal(err)
	}
	if _, err := NewWriter(db, childWriter(parts[2], WriterProtocol(protocol))); err != nil {
		log.Fatal(err)
	}
	_, at, _, err := db.Bounds(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if at < childStart {
		at = childStart
	}
	for range time.Tick(childPause) {
		at += childStep
		if err := putChild(db, at); err != nil {
			log.Fatal(err)
		}
	}
}

const childStart = int64(1_700_000_000_000)

func childOptions() *tsdb.Options {
	return &tsdb.Options{Blocks: tsdb.BlockOptions{Range: childRange}, WAL: tsdb.WALOptions{SegmentSize: 32 << 10}, Limits: tsdb.Limits{MaxFuture: -1}}
}

func childWriter(url string, protocol WriterProtocol) *WriterOptions {
	return &WriterOptions{URL: url, Deadline: 5 * time.Millisecond, MaxSamples: 300, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, Protocol: protocol, shards: 3}
}

// putChild commits a sample of each series. Its value says what it is.
func putChild(db *tsdb.DB, at int64) error {
	app := db.Appender()
	for i := range childSeries {
		if _, err := app.Append(0, labels.FromStrings(labels.MetricName, "m", "n", fmt.Sprint(i)), at, float64(at+int64(i))); err != nil {
			return err
		}
	}
	_, err := app.Commit(context.Background())
	return err
}

// skipOnWindows skips tests of kills where locks outlive their process for a while.
func skipOnWindows(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows the lock of a killed process outlives it for a while, so the next one cannot open the directory")
	}
}

// startChild starts a child. kill kills it.
func startChild(t *testing.T, what ...string) (kill func()) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(what, "|"))
	var out strings.Builder
	cmd.Stderr = &out
	require.NoError(t, cmd.Start())
	return func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), out.String())
	}
}

// protocolOf is the protocol of a round: one, and the other.
func protocolOf(round int) WriterProtocol { return ProtocolV1 + WriterProtocol(round%2) }

// awayRounds is in how many rounds the receiver is away once.
const awayRounds = 6

// However often a sender is killed, each sample gets there once, in order. What was on its way is
// sent again as it was: nothing new is in a request that a strict receiver refuses.
func TestWriterKill_OfTheSender(t *testing.T) {
	skipOnWindows(t)
	skipIfShort(t)
	rc := &strictReceiver{newest: map[string]int64{}, taken: map[string]int{}}
	server := httptest.NewServer(rc)
	defer server.Close()
	dir := t.TempDir()
	{ // the first run says from where on
		db, err := tsdb.Open(dir, childOptions())
		require.NoError(t, err)
		w, err := NewWriter(db, childWriter(server.URL, ProtocolAny))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, db.Close())
	}
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for n := range kills() {
		rc.mu.Lock()
		rc.away = n%awayRounds == 2
		rc.mu.Unlock()
		kill := startChild(t, childSends, dir, server.URL, fmt.Sprint(int(protocolOf(n+n/awayRounds))))
		if rc.away { // so long that only blocks have what was not sent
			<-time.After(awayFor)
		}
		<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		kill()
	}
	rc.mu.Lock()
	rc.away = false
	rc.mu.Unlock()
	db, err := tsdb.Open(dir, childOptions())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	w, err := NewWriter(db, childWriter(server.URL, ProtocolV2))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), killDeadline)
	defer cancel()
	require.NoError(t, w.Flush(ctx))
	t.Logf("%+v", w.Stats())
	require.NoError(t, w.Close())

	all := storedSamples(t, db, "m")
	require.Len(t, all, childSeries)
	for key, samples := range all {
		n := "m|" + key[len(`{__name__="m", n="`):len(key)-2] + "|"
		require.Equal(t, samples[len(samples)-1].T, rc.newest[n], key)
		require.Equal(t, len(samples), rc.taken[n], key)
	}
	require.Zero(t, rc.mixed)
	t.Logf("%d kills, %d requests of 1.0 and 2.0, %d samples of each of %d series", kills(), rc.requests, rc.taken["m|0|"], childSeries)
	for _, n := range rc.requests {
		require.Positive(t, n)
	}
}

// protocolRounds is for how many kills of a receiver a Writer speaks one protocol.
const protocolRounds = 3

// However often a receiver is killed, it has everything in the end.
func TestWriterKill_OfTheReceiver(t *testing.T) {
	skipOnWindows(t)
	skipIfShort(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	dir := t.TempDir()
	db, err := tsdb.Open(t.TempDir(), childOptions())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rng := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	w := writerTo(t, db, address, ProtocolV1)
	at, spoken := childStart, map[string]uint64{}
	for n := range kills() {
		if n > 0 && n%protocolRounds == 0 {
			closeChecked(t, w, spoken)
			w = writerTo(t, db, address, protocolOf(n/protocolRounds))
		}
		kill := startChild(t, childTakes, dir, address)
		for end := time.Now().Add(time.Duration(rng.IntN(400)) * time.Millisecond); time.Now().Before(end); {
			at += childStep
			require.NoError(t, putChild(db, at))
			<-time.After(childPause)
		}
		kill()
	}
	closeChecked(t, w, spoken)
	w = writerTo(t, db, address, ProtocolV2)
	kill := startChild(t, childTakes, dir, address)
	ctx, cancel := context.WithTimeout(context.Background(), killDeadline)
	defer cancel()
	require.NoError(t, w.Flush(ctx))
	closeChecked(t, w, spoken)
	kill()
	t.Logf("%d kills, requests of %v", kills(), spoken)
	require.Len(t, spoken, 2)
	got, err := tsdb.Open(dir, childOptions())
	require.NoError(t, err)
	require.Equal(t, storedSamples(t, db, "m"), storedSamples(t, got, "m"))
	require.NoError(t, got.Close())
}

func writerTo(t *testing.T, db *tsdb.DB, address string, protocol WriterProtocol) *Writer {
	t.Helper()
	w, err := NewWriter(db, childWriter("http://"+address, protocol))
	require.NoError(t, err)
	return w
}

// closeChecked closes a Writer of which nothing was refused, and counts what it sent.
func closeChecked(t *testing.T, w *Writer, spoken map[string]uint64) {
	t.Helper()
	require.NoError(t, w.Close())
	st := w.Stats()
	require.Zero(t, st.DroppedRefused, st.LastRefusal)
	spoken[st.Protocol] += st.Requests
}
