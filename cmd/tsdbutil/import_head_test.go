package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

func TestImport_Extras_NeedTheDatabaseForThemselves(t *testing.T) {
	temp := t.TempDir()
	file, dir := filepath.Join(temp, "a"), filepath.Join(temp, "db")
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, os.WriteFile(file, []byte("m 1 1700000001 # {a=\"b\"} 1\n# EOF\n"), 0o600))
	c := newTestConsole()
	require.Equal(t, exitProblem, execute(t.Context(), []string{"import", file, dir, "--extras"}, &c.console))
	require.Contains(t, c.stderr.String(), "nobody else may have the database open")
	require.Empty(t, db.Blocks())
}

func TestImport_Extras_OfATableAreAnError(t *testing.T) {
	temp := t.TempDir()
	file, dir := filepath.Join(temp, "a.csv"), filepath.Join(temp, "db")
	require.NoError(t, os.WriteFile(file, []byte("timestamp_ms,value,__name__\n1700000001000,1,m\n"), 0o600))
	c := newTestConsole()
	require.Equal(t, exitUsage, execute(t.Context(), []string{"import", file, dir, "--extras"}, &c.console))
	require.Contains(t, c.stderr.String(), "--extras: only OpenMetrics")
	require.NoDirExists(t, dir)
}

// The Prometheus text format has types and help.
func TestImport_Extras_OfThePrometheusTextFormat(t *testing.T) {
	temp := t.TempDir()
	file, dir := filepath.Join(temp, "a"), filepath.Join(temp, "db")
	require.NoError(t, os.WriteFile(file, []byte("# HELP m Says it.\n# TYPE m gauge\nm 1 1700000001000\n"), 0o600))
	c := newTestConsole()
	require.Equal(t, exitOK, execute(t.Context(), []string{"import", file, dir, "--extras", "--format=prom"}, &c.console), c.stderr.String())
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(0, 1<<50)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all, err := q.Metadata(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, tsdb.Metadata{Type: tsdb.MetricGauge, Help: "Says it."}, all[0].Metadata)
}

// One that no head takes is a bad line: nothing of the file is imported, exemplars neither.
func TestImport_Extras_ABadExemplarIsABadLine(t *testing.T) {
	temp := t.TempDir()
	file, dir := filepath.Join(temp, "a"), filepath.Join(temp, "db")
	text := "m 1 1700000001 # {a=\"b\"} 1\nm 2 1700000002 # {a=\"" + strings.Repeat("x", 200) + "\"} 1\n# EOF\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c := newTestConsole()
	require.Equal(t, exitProblem, execute(t.Context(), []string{"import", file, dir, "--extras"}, &c.console))
	require.Contains(t, c.stderr.String(), "line 2")
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Empty(t, db.Blocks())
	q, err := db.Querier(0, 1<<50)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all, err := q.Exemplars(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
}
