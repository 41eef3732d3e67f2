package tsdb_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// openReport opens a directory of these files and returns what Open says, without
// durations.
func openReport(t *testing.T, files map[string][]byte) tsdb.OpenReport {
	t.Helper()
	fs, err := diskOf(files)
	require.NoError(t, err)
	db, err := tsdb.Open("data", damageOptions(fs))
	require.NoError(t, err)
	r := db.OpenReport()
	require.NoError(t, db.Close())
	r.Duration, r.ReaderBusy, r.DecoderBusy, r.WorkerBusy = 0, 0, 0, 0
	return r
}

// wholeReport is what Open says of a specimen that nothing happened to.
func (sp *specimen) wholeReport() tsdb.OpenReport {
	r := tsdb.OpenReport{Segments: 4, Commits: len(sp.commits), HeadChunkFiles: 2}
	series := map[string]bool{}
	for _, c := range sp.commits {
		r.Samples += uint64(len(c))
		r.Records++ // of samples
		fresh := false
		for _, row := range c {
			fresh = fresh || !series[row.ls.String()]
			series[row.ls.String()] = true
		}
		if fresh {
			r.Records++ // of series
		}
	}
	for name, data := range sp.files {
		if filepath.Dir(name) == "wal" {
			r.Bytes += int64(len(data))
		}
	}
	r.Series = len(series)
	// Of the last session nothing is known to be on stable storage but what came before
	// it.
	r.LastSeq = uint64(len(sp.commits))
	r.SyncedSeq = uint64(sp.synced)
	r.HeadChunks, r.SamplesInChunks = sp.chunks, sp.inChunks
	r.Samples -= sp.inChunks
	return r
}

func TestOpenReport_OfANewDirectoryIsEmpty(t *testing.T) {
	r := openReport(t, nil)
	require.Equal(t, tsdb.OpenReport{}, r)
	require.True(t, r.Clean())
}

func TestOpenReport_CountsWhatTheLogHas(t *testing.T) {
	sp := newSpecimen(t)
	r := openReport(t, sp.files)
	require.Equal(t, sp.wholeReport(), r)
	require.True(t, r.Clean())
	require.Greater(t, r.SamplesInChunks, uint64(2*16))
}

func TestOpenReport_NamesADamagedCommit(t *testing.T) {
	sp := newSpecimen(t)
	const hit = 4 // the second commit of the second session
	s := sp.spans[hit]
	data := bytes.Clone(sp.files[s.file])
	data[s.off+7] ^= 1 // the first byte of its first record, which is one of series
	r := openReport(t, sp.without(s.file, data))

	want := sp.wholeReport()
	want.Commits--
	want.Records -= 2
	want.Series--
	// The series that is born there loses its later sample, too.
	want.SamplesUnknown = 1
	want.DroppedCommits, want.DroppedRecords = 1, 1 // the other record cannot be read
	want.DroppedBytes = int64(s.end - s.off)
	want.Quarantined = []string{filepath.Join("quarantine", "wal-00000001")}
	require.False(t, r.Clean())
	require.Len(t, r.Damages, 1)
	d := r.Damages[0]
	require.Equal(t, filepath.Join("data", filepath.FromSlash(s.file)), d.File)
	require.EqualValues(t, s.off, d.Offset)
	require.Equal(t, "fragment does not match its checksum", d.Reason)
	require.False(t, d.Tail)
	require.False(t, d.Rebuilt)
	// Samples of the commit that are in a full chunk are not lost with it, but the log
	// does not show them any more.
	require.Equal(t, want.Samples+want.SamplesInChunks-uint64(len(sp.commits[hit]))-1, r.Samples+r.SamplesInChunks)
	want.Samples, want.SamplesInChunks, want.Damages = r.Samples, r.SamplesInChunks, r.Damages
	require.Equal(t, want, r)
}

func TestOpenReport_TellsATornTailFromALoss(t *testing.T) {
	sp := newSpecimen(t)
	last := sp.spans[len(sp.spans)-1]
	require.Equal(t, lastSegment, last.file)
	cut := last.end - 3
	files := sp.without(last.file, sp.files[last.file][:cut])
	r := openReport(t, files)

	want := sp.wholeReport()
	want.Commits--
	want.Records--
	want.Samples -= uint64(len(sp.commits[len(sp.commits)-1]))
	want.LastSeq--
	want.Bytes -= 3
	want.TornTail = true
	want.DroppedRecords, want.DroppedBytes = r.DroppedRecords, int64(cut-last.off)
	require.Equal(t, 1, r.DroppedRecords, "its samples; the frame is no record that counts")
	want.Quarantined = []string{filepath.Join("quarantine", "wal-00000003")}
	require.True(t, r.Clean(), "nothing of it was promised")
	require.Len(t, r.Damages, 1)
	d := r.Damages[0]
	require.True(t, d.Tail)
	require.Equal(t, filepath.Join("data", filepath.FromSlash(last.file)), d.File)
	require.GreaterOrEqual(t, d.Offset, int64(last.off))
	want.Damages = r.Damages
	require.Equal(t, want, r)
}

func TestOpenReport_ADamagedChunkFileIsRebuiltFromTheLog(t *testing.T) {
	sp := newSpecimen(t)
	data := bytes.Clone(sp.files["chunks_head/000001"])
	data[8] ^= 1 // the first chunk
	r := openReport(t, sp.without("chunks_head/000001", data))

	want := sp.wholeReport()
	want.Samples += want.SamplesInChunks
	want.SamplesInChunks, want.HeadChunks = 0, 0
	want.HeadChunkFiles = 1 // its header is good
	want.Quarantined = []string{filepath.Join("quarantine", "000001"), filepath.Join("quarantine", "000002")}
	require.True(t, r.Clean())
	require.Len(t, r.Damages, 1)
	require.True(t, r.Damages[0].Rebuilt)
	require.Equal(t, filepath.Join("data", "chunks_head", "000001"), r.Damages[0].File)
	require.EqualValues(t, 8, r.Damages[0].Offset)
	want.Damages = r.Damages
	require.Equal(t, want, r)
}

// foreignSegment puts records into a segment as another engine does: without frames.
func foreignSegment(records ...[]byte) []byte {
	var seg []byte
	for _, rec := range records {
		seg = append(seg, 1, byte(len(rec)>>8), byte(len(rec)))
		seg = binary.BigEndian.AppendUint32(seg, crc32.Checksum(rec, crc32.MakeTable(crc32.Castagnoli)))
		seg = append(seg, rec...)
	}
	return seg
}

func TestOpenReport_OfAForeignLog(t *testing.T) {
	seriesRecord := func(ref uint64, selector string) []byte {
		return record.AppendSeries(record.BeginSeries(nil), ref, series(t, selector))
	}
	seg := foreignSegment(
		seriesRecord(1, `{a="b"}`), seriesRecord(5, `{a="c"}`),
		record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 10, V: 1}, {Ref: 5, T: 10, V: 2}}),
		record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 10, V: 1}, {Ref: 1, T: 9, V: 3}, {Ref: 5, T: 20, V: 4}}), // two late ones
		record.AppendSamples(nil, []record.Sample{{Ref: 9, T: 30, V: 1}}),                                              // of nobody
		[]byte{6, 1, 1, 0},                         // metadata
		[]byte{4}, []byte{4}, []byte{0x33, 1}, nil, // exemplars, a type that nobody knows, and an empty record
		seriesRecord(7, `{a="b"}`), // the same labels again
		record.AppendSamples(nil, []record.Sample{{Ref: 7, T: 40, V: 5}}),
		record.AppendTombstones(nil, []record.Tombstone{{Ref: 5, Mint: 20, Maxt: 25}}),
	)
	fs, err := diskOf(map[string][]byte{"wal/00000000": seg})
	require.NoError(t, err)
	db, err := tsdb.Open("data", damageOptions(fs))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	r := db.OpenReport()
	r.Duration, r.ReaderBusy, r.DecoderBusy, r.WorkerBusy = 0, 0, 0, 0
	require.Equal(t, tsdb.OpenReport{
		Segments: 1, ForeignSegments: 1, Bytes: int64(len(seg)), Records: 13, Series: 2,
		Samples: 4, SamplesLate: 2, SamplesUnknown: 1, Tombstones: 1,
		UnreadRecords:       map[string]int{record.Type(0x33).String(): 1, record.TypeNone.String(): 1},
		UnreadSampleRecords: 1,
	}, r)
	require.False(t, r.Clean(), "a sample without a series is lost")
	got, err := everything(db)
	require.NoError(t, err)
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 40, 5), `{a="c"}`: points(10, 2)}, got)

	app := db.Appender()
	ref, err := app.Append(0, series(t, `{a="new"}`), 1, 1)
	require.NoError(t, err)
	require.Greater(t, ref, tsdb.SeriesRef(9), "a ref that the log names is not given out again")
	require.NoError(t, app.Rollback())
}

// progressOf opens the files and returns what the callback was told.
func progressOf(t *testing.T, files map[string][]byte) (told []tsdb.RecoveryProgress) {
	t.Helper()
	fs, err := diskOf(files)
	require.NoError(t, err)
	opts := damageOptions(fs)
	opts.Progress = func(p tsdb.RecoveryProgress) { told = append(told, p) } // from one goroutine: race would tell
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return told
}

func TestProgress_RisesToTheTotal(t *testing.T) {
	sp := newSpecimen(t)
	segment := sp.files["wal/00000000"]
	files := map[string][]byte{}
	sum := int64(0)
	for i := range 40 { // a long log, for several batches
		files[fmt.Sprintf("wal/%08d", i)] = foreignSegment(bytes.Repeat([]byte{6}, 30_000))
		sum += int64(len(files["wal/00000000"]))
	}
	for name, c := range map[string]struct {
		files map[string][]byte
		total int64
	}{
		"clean":      {sp.files, sp.wholeReport().Bytes},
		"long":       {files, sum},
		"torn":       {map[string][]byte{"wal/00000000": segment[:len(segment)-3]}, int64(len(segment) - 3)},
		"ended":      {map[string][]byte{"wal/00000000": segment[:200], "wal/00000001": sp.files[lastSegment]}, int64(200 + len(sp.files[lastSegment]))},
		"no log":     {nil, 0},
		"empty file": {map[string][]byte{"wal/00000000": {}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			told := progressOf(t, c.files)
			require.NotEmpty(t, told)
			last := tsdb.RecoveryProgress{Total: c.total}
			for _, p := range told {
				require.Equal(t, c.total, p.Total)
				require.GreaterOrEqual(t, p.Done, last.Done)
				last = p
			}
			require.Equal(t, c.total, last.Done, "it ends at the total")
		})
	}
}

func TestOpenReport_OfAKilledProcessIsClean(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="c"}`), 1, 1)
	require.NoError(t, err)
	disk := f.fs.KillClone()
	require.NoError(t, app.Rollback())
	db, err := tsdb.Open(fixtureDir, &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	r := db.OpenReport()
	require.True(t, r.Clean())
	require.Empty(t, r.Damages)
	require.False(t, r.TornTail)
	require.Equal(t, 1, r.Series)
	require.NoError(t, db.Close())
}
