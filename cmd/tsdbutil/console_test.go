package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWantsColour_FollowsTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		goos     string
		env      map[string]string
		want     bool
	}{
		{true, "linux", nil, true},
		{false, "linux", nil, false},
		{true, "linux", map[string]string{"NO_COLOR": "1"}, false},
		{true, "linux", map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, false},
		{false, "linux", map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{false, "linux", map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{true, "linux", map[string]string{"TERM": "dumb"}, false},
		{true, "windows", nil, false},
		{true, "windows", map[string]string{"WT_SESSION": "x"}, true},
	} {
		require.Equal(t, c.want, wantsColour(c.terminal, c.goos, func(k string) string { return c.env[k] }), "%+v", c)
	}
}

func TestProgress_IsDrawnOnATerminalAndCleared(t *testing.T) {
	c := newTestConsole()
	require.Nil(t, c.startProgress("Reading", 10, false), "no bar off a terminal")

	p := &progress{text: "Reading", stop: make(chan struct{})}
	p.set(5, 10)
	p.drawn.Add(1)
	drawn := make(chan struct{})
	c.err = writerFunc(func(b []byte) (int, error) {
		if c.stderr.Len() == 0 {
			close(drawn)
		}
		return c.stderr.Write(b)
	})
	go p.draw(&c.console, 0)
	<-drawn
	p.finish()
	p.finish()
	require.Contains(t, c.stderr.String(), "Reading")
	require.Contains(t, c.stderr.String(), "50%")
	require.NotContains(t, c.stderr.String(), "\n")
}

func TestProgress_CountsWhenItDoesNotKnowTheTotal(t *testing.T) {
	c := newTestConsole()
	p := &progress{text: "Reading samples", stop: make(chan struct{})}
	p.add(1_234_567)
	p.drawn.Add(1)
	drawn := make(chan struct{})
	c.err = writerFunc(func(b []byte) (int, error) {
		if n, err := c.stderr.Write(b); err != nil || !strings.Contains(c.stderr.String(), "1,234,567") {
			return n, err
		}
		select {
		case <-drawn:
		default:
			close(drawn)
		}
		return len(b), nil
	})
	go p.draw(&c.console, 0)
	<-drawn
	p.finish()
	require.Contains(t, c.stderr.String(), "Reading samples 1,234,567")
}

func TestProgress_QuickWorkShowsNone(t *testing.T) {
	c := newTestConsole()
	c.errTerminal = true
	p := c.startProgress("Reading", 10, false)
	p.add(10)
	p.finish()
	require.Empty(t, c.stderr.String())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestTable_CutsTheNamesToFitATerminal(t *testing.T) {
	dir := database(t, `
		{__name__="up", instance="a-very-long-name-of-a-machine-in-a-far-away-place.example.com:9100", job="x"} 1 1000
		{__name__="up", instance="another-very-long-name-of-a-machine-in-a-far-away-place.example.com:9100", job="x"} 1 1000`)
	c := newTestConsole()
	c.terminal = true
	require.Equal(t, exitOK, execute(t.Context(), []string{"query", dir, "up"}, &c.console))
	require.Contains(t, c.stdout.String(), `up{job="x"}`, "what all have in common stands above")
	require.Contains(t, c.stdout.String(), "…")
	for line := range lines(c.stdout.String()) {
		require.LessOrEqual(t, len([]rune(line)), defaultWidth, line)
	}
}

func TestTable_FoldsNamesThatWouldLookTheSame(t *testing.T) {
	dir := database(t, `
		{__name__="host_network_bytes_total", direction="receive", interface="eth0", job="x"} 1 1000
		{__name__="host_network_bytes_total", direction="transmit", interface="eth0", job="x"} 1 1000
		{__name__="short", interface="`+strings.Repeat("long", 20)+`"} 1 1000`)
	c := newTestConsole()
	c.terminal = true
	require.Equal(t, exitOK, execute(t.Context(), []string{"query", dir, `{interface!=""}`}, &c.console))
	for _, direction := range []string{"receive", "transmit"} {
		require.Contains(t, c.stdout.String(), "host_network_bytes_total{")
		require.Contains(t, c.stdout.String(), "\n  direction=\""+direction+"\", interface=\"eth0\",\n  job=\"x\"}\n")
	}
	for line := range lines(c.stdout.String()) {
		require.LessOrEqual(t, len([]rune(line)), defaultWidth, line)
	}
	require.Equal(t, "metri…ame", fold("metric_of_the_same", 9), "nowhere to break")
	require.Equal(t, "up{a=\"1\"}", fold("up{a=\"1\"}", 9))
	require.Equal(t, "up{\n  a=\"1\"}", fold("up{a=\"1\"}", 8))
}

// Who reads the help has had enough: no reason for a stack trace.
func TestRun_HelpIntoAClosedPipeIsNoError(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	require.Equal(t, exitOK, run([]string{"demo", "--help"}, w, errs))
	require.NoError(t, w.Close())
	require.NoError(t, errs.Close())
	text, err := os.ReadFile(errs.Name())
	require.NoError(t, err)
	require.Empty(t, string(text))
}

func TestJoinLines_KeepsToTheWidth(t *testing.T) {
	parts := []string{"blocks 12", "wal 3", "x", "a word that is long"}
	require.Equal(t, []string{"blocks 12, wal 3,", "x,", "a word that is long"}, joinLines(parts, 17))
	require.Equal(t, []string{"blocks 12,", "wal 3, x,", "a word that is long"}, joinLines(parts, 16))
	require.Equal(t, []string{"blocks 12, wal 3, x, a word that is long"}, joinLines(parts, 80))
	require.Equal(t, []string{"blocks 12"}, joinLines(parts[:1], 3))
}

// A table of blocks fits a terminal from 80 columns on. Elsewhere it is the one of promtool.
func TestBlockTables_FitTheTerminal(t *testing.T) {
	b := listedBlock{ULID: strings.Repeat("0", 26), MinTime: 1795646036418, MaxTime: 1795646036418 + 7_200_000, Samples: 9_999_999, Chunks: 999_999, Series: 99_999, Bytes: 1000 << 10}
	for _, width := range []int{80, 100, shortWidth - 1, shortWidth, 120, listWidth - 1, listWidth, 160} {
		c := newTestConsole()
		c.terminal, c.width = true, width
		require.NoError(t, (&listCommand{}).print(&c.console, []listedBlock{b}))
		lines := strings.Split(strings.TrimSpace(c.stdout.String()), "\n")
		require.Equal(t, width >= shortWidth, strings.Contains(lines[0], "CHUNKS"), width)
		for _, line := range lines {
			require.LessOrEqual(t, len([]rune(line)), width)
		}
	}
	shown := demoBlock{ULID: b.ULID, MinTime: b.MinTime, MaxTime: b.MinTime + 59_999, Level: 3, Series: 9_999, Chunks: 99_999, Samples: 999_999, Bytes: 1000 << 10}
	for _, width := range []int{80, 120} {
		c := newTestConsole()
		c.terminal, c.width = true, width
		require.NoError(t, newDemoText(&c.console, &demoCommand{}).blockTable([]demoBlock{shown}))
		for line := range strings.Lines(c.stdout.String()) {
			require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), width, line)
		}
	}
	c := newTestConsole()
	require.NoError(t, (&listCommand{}).print(&c.console, []listedBlock{b}))
	require.Contains(t, c.stdout.String(), "NUM SERIES")
}
