package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer is what a package may import.
type layer struct {
	level   int      // it imports packages of lower levels
	foreign []string // and these, from outside the standard library and the module
	public  bool     // a program that uses the library may name it
	below   []string // packages of this module that are not public, which it may import although it uses the API
	support bool     // for tests: imported by test files and other support packages only
}

const (
	pkgErrors = "github.com/pkg/errors"
	xsysUnix  = "golang.org/x/sys/unix"
	xsysWin   = "golang.org/x/sys/windows"
)

// layers is every package of the root module. Imports fall: never up, never sideways.
var layers = map[string]layer{
	"labels":              {level: 0, foreign: []string{pkgErrors, "github.com/cespare/xxhash/v2"}, public: true},
	"internal/encbuf":     {level: 0, foreign: []string{pkgErrors}},
	"internal/fileutil":   {level: 0, foreign: []string{pkgErrors, xsysUnix, xsysWin}},
	"internal/invariants": {level: 0},
	"internal/clock":      {level: 0, foreign: []string{xsysUnix}},
	"internal/foreground": {level: 0},
	"internal/prefetch":   {level: 0},
	"internal/memlimit":   {level: 0},
	"internal/minheap":    {level: 0},
	"internal/reftable":   {level: 0},
	"internal/zstd":       {level: 0, foreign: []string{"github.com/cespare/xxhash/v2"}},
	"histogram":           {level: 0, foreign: []string{pkgErrors}, public: true},

	"internal/isolation":  {level: 1},
	"internal/tombstones": {level: 1, foreign: []string{pkgErrors}},
	"internal/marks":      {level: 1, foreign: []string{pkgErrors}},
	"internal/horizon":    {level: 1, foreign: []string{pkgErrors}},
	"internal/pace":       {level: 1, foreign: []string{pkgErrors}},
	"internal/background": {level: 1, foreign: []string{pkgErrors}},
	"internal/schedule":   {level: 1},
	"internal/pool":       {level: 0},

	"internal/histchunk": {level: 1, foreign: []string{pkgErrors}},
	"internal/xorchunk":  {level: 1},
	"exemplar":           {level: 1, foreign: []string{pkgErrors}, public: true},

	"chunkenc": {level: 2, foreign: []string{pkgErrors}, public: true},
	"wal":      {level: 1, foreign: []string{pkgErrors, "github.com/golang/snappy"}},

	"agg":                  {level: 3, foreign: []string{pkgErrors}, public: true},
	"wal/zstd":             {level: 3, foreign: []string{pkgErrors, "github.com/klauspost/compress/zstd"}, public: true},
	"internal/logreach":    {level: 3},
	"internal/diskspace":   {level: 3, foreign: []string{pkgErrors}},
	"internal/samplemerge": {level: 3},

	"chunks": {level: 3, foreign: []string{pkgErrors}},

	"index": {level: 4, foreign: []string{pkgErrors}},

	"internal/exemplars": {level: 4},
	"internal/record":    {level: 4, foreign: []string{pkgErrors}},
	"internal/metadata":  {level: 5},
	"internal/memseries": {level: 5, foreign: []string{pkgErrors}},
	"internal/headsnap":  {level: 5, foreign: []string{pkgErrors}},
	"internal/blocklist": {level: 5, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/blockdir":  {level: 5, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},

	"internal/headchunks": {level: 6, foreign: []string{pkgErrors}},
	"internal/blockplan":  {level: 6, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/rules":      {level: 6, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/blockmerge": {level: 6, foreign: []string{pkgErrors}},
	"internal/late":       {level: 6, foreign: []string{pkgErrors}},
	"internal/checkpoint": {level: 6, foreign: []string{pkgErrors}},
	"internal/datadir":    {level: 6, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},

	"internal/latelog": {level: 7, foreign: []string{pkgErrors}},
	"internal/read":    {level: 7, foreign: []string{pkgErrors}},
	"internal/replay":  {level: 7, foreign: []string{pkgErrors}},

	"internal/logtail": {level: 7},

	"internal/backfill":    {level: 8, foreign: []string{pkgErrors}},
	"internal/blockset":    {level: 8, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/cardinality": {level: 8},
	"internal/compact":     {level: 8, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/dircopy":     {level: 8, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/headblock":   {level: 8, foreign: []string{pkgErrors}},
	"internal/headdelete":  {level: 8, foreign: []string{pkgErrors}},
	"internal/headlate":    {level: 8, foreign: []string{pkgErrors}},
	"internal/headended":   {level: 8, foreign: []string{pkgErrors}},
	"internal/mend":        {level: 8, foreign: []string{pkgErrors}},
	"internal/repair":      {level: 8, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},
	"internal/snapshots":   {level: 8, foreign: []string{pkgErrors}},
	"internal/verify":      {level: 8, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}},

	".": {level: 9, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}, public: true},

	// Beside the levels: what tests stand on, and these rules.
	"tsdbtest":           {level: 1, foreign: []string{pkgErrors}, public: true, support: true},
	"internal/faultfs":   {level: 3, foreign: []string{pkgErrors}, support: true},
	"internal/waytest":   {level: 0, support: true},
	"internal/histtest":  {level: 1, foreign: []string{pkgErrors}, support: true},
	"internal/sweep":     {level: 0, support: true},
	"internal/itertest":  {level: 3, foreign: []string{pkgErrors}, support: true},
	"internal/blocktest": {level: 6, foreign: []string{"github.com/oklog/ulid/v2"}, support: true},
	"internal/lint":      {level: 0},
	"internal/mutants":   {level: 0},

	// Samples are merged by one package, whoever has them: an answer may have chunks that overlap,
	// and series that become one. What of it a program would need is not so clear that it could be
	// public.
	"remote": {level: 10, foreign: []string{pkgErrors, "github.com/golang/snappy", "google.golang.org/protobuf/encoding/protowire"}, public: true,
		below: []string{"internal/samplemerge", "internal/marks", "internal/fileutil"}},

	// Backups write files with the care of the rest: names and bytes durable, in any file system.
	"backup": {level: 10, foreign: []string{pkgErrors, "github.com/oklog/ulid/v2"}, public: true,
		below: []string{"internal/fileutil"}},

	// Above the API. What the tools need from outside is counted nowhere: programs that
	// import the library do not link it.
	"internal/hostmetrics": {level: 10, foreign: []string{"*"}},
	"cmd/tsdbutil":         {level: 11, foreign: []string{"*"}},
}

// api is the level from which on packages use the library as any program does: only
// what is public of it.
const api = 10

// testForeign is what test files may import besides: they are linked nowhere.
var testForeign = []string{
	"github.com/stretchr/testify/require",
	"github.com/rogpeppe/go-internal/testscript",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
	"github.com/klauspost/compress/zstd", // what internal/zstd is compared with
}

func TestImports_OnlyFall(t *testing.T) {
	check(t, importsFall)
}

func TestLayers_NameOnlyPackagesThatExist(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range tree(t) {
		seen[s.dir] = true
	}
	for dir := range layers {
		require.True(t, seen[dir], "no package in %s", dir)
	}
}

// importsFall holds a file to the table.
func importsFall(s *source) []string {
	own, ok := layers[s.dir]
	if !ok {
		return []string{s.path + ": its package has no row in the table of layers_test.go"}
	}
	var wrong []string
	for _, spec := range s.file.Imports {
		p := importPath(spec)
		why := ""
		if dir, ours := local(p); ours {
			why = refuseLocal(s, own, dir)
		} else if strings.Contains(strings.Split(p, "/")[0], ".") {
			why = refuseForeign(s, own, p)
		}
		if why != "" {
			wrong = append(wrong, s.at(spec, "imports %s: %s", p, why))
		}
	}
	return wrong
}

// local returns the directory of a package of this module.
func local(p string) (dir string, ok bool) {
	if p == module {
		return ".", true
	}
	dir, ok = strings.CutPrefix(p, module+"/")
	return dir, ok
}

// refuseLocal returns why s may not import the package in dir, or nothing.
func refuseLocal(s *source, own layer, dir string) string {
	other, ok := layers[dir]
	switch {
	case !ok:
		return "it has no row in the table"
	case s.test && (dir == s.dir || other.support):
		return ""
	case other.support && !own.support:
		return "it is for tests"
	case own.level >= api && other.level < api && !other.public && !slices.Contains(own.below, dir):
		return "only what is public may be used here"
	case other.level >= own.level:
		return "imports must fall to a lower level"
	default:
		return ""
	}
}

// refuseForeign returns why s may not import a package from outside, or nothing.
func refuseForeign(s *source, own layer, p string) string {
	if slices.Contains(own.foreign, p) || slices.Contains(own.foreign, "*") {
		return ""
	}
	if s.test && (slices.Contains(testForeign, p) || p == pkgErrors || p == xsysUnix) {
		return ""
	}
	return "the package's row does not list it"
}

// The root's tests use the library from outside; export_test.go is the one door in.
func TestRoot_IsTestedFromOutside(t *testing.T) {
	for _, s := range tree(t) {
		if s.dir == "." && s.test && s.path != "export_test.go" {
			require.Equal(t, "tsdb_test", s.file.Name.Name, s.path)
		}
	}
}
