package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// The scripts run this program as a user does: as a process, with its exit code. The
// recorder of the demo is such a process too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tsdbutil": func() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) },
		"fixture":  fixture,
		"repack":   repack,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/scripts",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("COLUMNS", "80")
			env.Values[serverKey{}] = &servedProcess{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": exitCode, "damage": damage, "damageblock": damageBlock, "damagebackup": damageBackup,
			"serving": serving, "ended": ended, "get": get, "certificate": certificate,
		},
	})
}

// fixture DIR FILE makes a database of lines like {__name__="up"} 1 1000: what dump
// writes. The value may be a histogram, as dump --format=openmetrics has it, and behind the
// time may stand a start timestamp in milliseconds; {__name__="up"} counter ms "Help." is metadata,
// and {__name__="up"} # {a="b"} 1 1.5 are exemplars, as import reads them. An empty line ends a
// commit; samples may be an hour late.
// It is a process of its own: one that starts others while it closes a database would lend them its
// lock for a moment.
func fixture() {
	text, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = makeDatabase(os.Args[1], string(text))
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// repack DIR makes blocks of what is in the head.
func repack() {
	db, err := tsdb.Open(os.Args[1], nil)
	if err == nil {
		err = errors.Join(db.Flush(context.Background()), db.Close())
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// exitCode N COMMAND... fails unless the command ends with this code.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with code %s, want %s", args[1], got, args[0])
	}
}

// damage FILE changes a byte in the middle.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage FILE")
	}
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	data[len(data)/2] ^= 0xff
	ts.Check(os.WriteFile(name, data, 0o600))
}

// damageblock DIR FILE changes a byte in the middle of a file of the only block;
// ! damageblock removes the file.
func damageBlock(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] damageblock DIR FILE")
	}
	metas, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*", "meta.json"))
	ts.Check(err)
	if len(metas) != 1 {
		ts.Fatalf("%d blocks", len(metas))
	}
	name := filepath.Join(filepath.Dir(metas[0]), args[1])
	if neg {
		ts.Check(os.Remove(name))
		return
	}
	damage(ts, false, []string{name})
}

// damagebackup DIR changes a byte in the middle of what the newest of some backups says of itself.
func damageBackup(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damagebackup DIR")
	}
	manifests, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "backups", "*.json"))
	ts.Check(err)
	if len(manifests) == 0 {
		ts.Fatalf("no backups")
	}
	damage(ts, false, manifests[len(manifests)-1:])
}

func makeDatabase(dir, text string) error {
	db, err := tsdb.Open(dir, &tsdb.Options{Head: tsdb.HeadOptions{OutOfOrderWindow: time.Hour}})
	if err != nil {
		return err
	}
	for _, commit := range strings.Split(text, "\n\n") {
		a := db.Appender()
		a.AllowExemplarsWithoutLabels(true)
		for line := range strings.Lines(commit) {
			if err := appendLine(a, strings.TrimSpace(line)); err != nil {
				return err
			}
		}
		if _, err := a.Commit(context.Background()); err != nil {
			return err
		}
	}
	return db.Close()
}

// appendMetadata appends what is behind the labels of a line of metadata.
func appendMetadata(a *tsdb.Appender, ls labels.Labels, typ, rest string) error {
	unit, help, _ := strings.Cut(rest, " ")
	help, err := strconv.Unquote(help)
	if err == nil {
		_, err = a.SetMetadata(0, ls, tsdb.Metadata{Type: tsdb.MetricTypeOf(typ), Unit: unit, Help: help})
	}
	return err
}

func appendLine(a *tsdb.Appender, line string) error {
	if line == "" {
		return nil
	}
	at := strings.Index(line, "} ") + 1
	ms, err := labels.ParseSelector(line[:at])
	if err != nil {
		return err
	}
	var b labels.Builder
	for _, m := range ms {
		b.Set(m.Name(), m.Value())
	}
	fields := strings.Fields(line[at:])
	if fields[0] == "#" {
		return parseExemplars([]byte(line[at+1:]), func(e exemplar.Exemplar) error {
			_, err := a.AppendExemplar(0, b.Labels(), e)
			return err
		})
	}
	if tsdb.MetricTypeOf(fields[0]) != tsdb.MetricUnknown {
		return appendMetadata(a, b.Labels(), fields[0], strings.TrimPrefix(line[at:], " "+fields[0]+" "))
	}
	times := [2]int64{}
	for i, text := range fields[1:] {
		if times[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	s := tsdb.Sample{T: times[0], ST: times[1]}
	if isHistogramText([]byte(fields[0])) {
		h := histogramSample{t: s.T, st: s.ST}
		if err := parseHistogram([]byte(fields[0]), &h); err != nil {
			return err
		}
		s = h.sample()
	} else if s.V, err = parseValue([]byte(fields[0])); err != nil {
		return err
	}
	_, err = a.AppendSample(0, b.Labels(), s)
	return err
}

// testConsole keeps what a command writes.
type testConsole struct {
	console
	stdout, stderr bytes.Buffer
}

func newTestConsole() *testConsole {
	c := &testConsole{}
	c.console = console{out: &c.stdout, err: &c.stderr, width: defaultWidth}
	return c
}

// database makes a database for one test and returns its directory.
func database(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, makeDatabase(dir, text))
	return dir
}

func TestExecute_LockedDatabaseNamesTheHolder(t *testing.T) {
	dir := database(t, `{__name__="up"} 1 1000`)
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, args := range [][]string{{"query", dir, "up"}, {"dump", dir}} { // these only read
		c := newTestConsole()
		require.Equal(t, exitOK, execute(context.Background(), args, &c.console), args)
		require.Contains(t, c.stdout.String(), "up", args)
	}
	for _, args := range [][]string{{"bench", "replay", dir}} {
		c := newTestConsole()
		require.Equal(t, exitProblem, execute(context.Background(), args, &c.console), args)
		require.Contains(t, c.stderr.String(), "pid "+strconv.Itoa(os.Getpid()), args)
		require.Empty(t, c.stdout.String(), args)
	}
}

func TestExecute_BenchmarkRemovesItsDirectoryHoweverItEnds(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // as Windows has it
	for cause, code := range map[error]int{nil: exitOK, errInterrupted: exitInterrupted, errTerminated: exitTerminated} {
		ctx, cancel := context.WithCancelCause(context.Background())
		if cause != nil {
			cancel(cause)
		}
		c := newTestConsole()
		require.Equal(t, code, execute(ctx, []string{"bench", "write", "--series", "10", "--samples", "10"}, &c.console))
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Empty(t, left)
		require.Equal(t, cause == nil, c.stdout.Len() > 0)
		cancel(nil)
	}
}

func TestExecute_InterruptedQueryAndDumpSayNothing(t *testing.T) {
	dir := database(t, `{__name__="up"} 1 1000`)
	for _, args := range [][]string{{"query", dir, "up"}, {"dump", dir}} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errInterrupted)
		c := newTestConsole()
		require.Equal(t, exitInterrupted, execute(ctx, args, &c.console), args)
		require.Empty(t, c.stderr.String(), args)
	}
}

func TestJoinNegative_GivesAFlagItsNegativeValue(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"query d up --start -5m", "query d up --start=-5m"},
		{"query d up --start=-5m --end -1", "query d up --start=-5m --end=-1"},
		{"dump d --min-time -9223372036854775808", "dump d --min-time=-9223372036854775808"},
		{"query d -o json -5m", "query d -o json -5m"},
		{"query -- --start -5m", "query -- --start -5m"},
		{"-5m", "-5m"},
	} {
		require.Equal(t, strings.Fields(c.want), joinNegative(strings.Fields(c.in)), c.in)
	}
}
