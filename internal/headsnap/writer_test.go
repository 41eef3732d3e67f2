package headsnap

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

const dataDir = "data"

func newDisk(t testing.TB) *tsdbtest.MemFS {
	t.Helper()
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.MkdirAll(dataDir))
	require.NoError(t, disk.SyncDir("."))
	return disk
}

var testFiles = []chunks.HeadExtent{{File: 1, Size: 1000, Tail: 7}}

// testStart is where snapshot n continues.
func testStart(n int) wal.Start { return wal.Start{Segment: n, NextSeq: 100, NextRef: 1000} }

// writeSnapshot writes a snapshot of some groups of series, and removes what it has written
// after an error.
func writeSnapshot(fsys fileutil.FS, segment, series int) (meta Meta, err error) {
	w, err := Create(fsys, dataDir, Options{Start: testStart(segment)})
	if err != nil {
		return meta, err
	}
	defer func() {
		if err != nil {
			err = fileutil.JoinErrors(err, w.Abort())
		}
	}()
	var enc xorchunk.Encoder
	for i := range series {
		enc.Reset()
		if err := enc.Append(int64(i), float64(i)); err != nil {
			return meta, err
		}
		ref := uint64(i + 1)
		w.BeginSeries(ref, 2)
		w.Label("i", strings.Repeat("x", 100)+string(rune('a'+i%26)))
		w.Label("n", string(rune('0'+i)))
		var full []chunks.Mapped
		for k := range i % 3 {
			full = append(full, chunks.Mapped{Ref: chunks.NewRef(1, uint32(8+i*100+k*50)), MinT: int64(k) * 10, MaxT: int64(k)*10 + 9, Num: 10})
		}
		if err := w.EndSeries(ref, full, &Chunk{Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil), MinT: int64(i), MaxT: int64(i), LastSum: math.Float64bits(float64(i))}); err != nil {
			return meta, err
		}
	}
	stones := new(tombstones.Set)
	stones.Add(1, tombstones.Interval{Mint: 1, Maxt: 2})
	gone := []Gone{{Ref: 5000, Segment: 1}}
	meta, err = w.Finish(stones, gone, func() (uint64, []chunks.HeadExtent, error) { return 0, testFiles, nil })
	if err != nil {
		return meta, err
	}
	return meta, w.Publish(context.Background())
}

// checkAll checks all snapshots that have a name and returns the segments of the good ones. One
// that is not whole is damage, and nothing else.
func checkAll(t testing.TB, fsys fileutil.FS, whole bool) (segments []int) {
	t.Helper()
	list, err := List(fsys, dataDir)
	require.NoError(t, err)
	for _, f := range list {
		meta, err := Check(context.Background(), fsys, f.Path, func(chunks.Mapped) {})
		if err != nil {
			require.False(t, whole, "%v", err)
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
			require.ErrorContains(t, err, f.Path)
			continue
		}
		require.Equal(t, f.Segment, meta.Start.Segment)
		segments = append(segments, f.Segment)
	}
	return segments
}

func TestWriter_WhatIsPublishedChecks(t *testing.T) {
	for _, series := range []int{0, 1, 1000} {
		disk := newDisk(t)
		wrote, err := writeSnapshot(disk, 3, series)
		require.NoError(t, err)
		meta, err := Check(context.Background(), disk, filepath.Join(dataDir, Name(3)), func(chunks.Mapped) {})
		require.NoError(t, err)
		require.Equal(t, wrote, meta)
		require.EqualValues(t, series, meta.Series)
		require.Equal(t, testStart(3), meta.Start)
		require.Equal(t, testFiles, meta.Files)
		require.Positive(t, meta.Sum.Bytes)
		require.Empty(t, disk.OpenHandles())
		lost := disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
		require.Equal(t, []int{3}, checkAll(t, lost, true), "it is on stable storage")
	}
}

// Full chunks stand before the series that they are of, a group at a time.
func TestWriter_FullChunksComeBeforeTheirSeries(t *testing.T) {
	disk := newDisk(t)
	const series = 1000
	meta, err := writeSnapshot(disk, 1, series)
	require.NoError(t, err)
	var waiting []uint64
	groups, next := 0, uint64(1)
	err = wal.ReadSnapshot(context.Background(), wal.ReplayOptions{FS: disk, Dir: filepath.Join(dataDir, Name(1)), Decoders: 2, Apply: func(b *wal.Batch) error {
		for _, r := range b.Records {
			switch KindOf(r.Data) {
			case KindMapped:
				require.Empty(t, waiting)
				list, err := decodeMapped(r.Data)
				require.NoError(t, err)
				groups++
				for _, s := range list {
					require.Len(t, s.Chunks, int(s.Ref-1)%3)
					waiting = append(waiting, s.Ref)
				}
			case KindGroup:
				require.NoError(t, EachSeries(r.Data, func(rec []byte) error {
					s, err := DecodeSeries(rec)
					require.NoError(t, err)
					require.Equal(t, next, s.Ref)
					next++
					if len(waiting) > 0 && waiting[0] == s.Ref {
						waiting = waiting[1:]
					}
					return nil
				}))
			}
		}
		return nil
	}}, meta.Start, meta.Sum)
	require.NoError(t, err)
	require.Empty(t, waiting)
	require.EqualValues(t, series+1, next)
	require.Greater(t, groups, 2)
}

// Whatever fails: nothing half has the name of a snapshot, nothing stays behind, an earlier one of
// the same name is whole or gone, and when the disk is well again the next one is written.
func TestWriter_AnyFault_LeavesNothingHalf(t *testing.T) {
	const series = 40
	faults := 0
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			disk := newDisk(t)
			_, err := writeSnapshot(disk, 2, 3)
			require.NoError(t, err)
			fsys := faultfs.New(disk)
			fsys.Inject(fault)
			_, err = writeSnapshot(fsys, 2, series)
			if len(fsys.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			faults++
			if err != nil && !fault.Sticky {
				// What Abort could not remove is removed by the next one.
				require.LessOrEqual(t, len(leftovers(t, disk)), 1)
			}
			require.Empty(t, disk.OpenHandles(), "%s %d\n%s", fault.Name, fault.Nth, fsys.TraceString())
			if isPoison(fault) && err != nil && errors.Is(err, wal.ErrPoisoned) {
				requireNoneHalfAfterCrash(t, disk)
				continue // the process writes nothing any more
			}
			got := checkAll(t, disk, false)
			if err == nil {
				require.Equal(t, []int{2}, got, "%s %d\n%s", fault.Name, fault.Nth, fsys.TraceString())
			}
			requireNoneHalfAfterCrash(t, disk)
			fsys.Lift()
			meta, err := writeSnapshot(fsys, 2, series+1)
			require.NoError(t, err)
			require.EqualValues(t, series+1, meta.Series)
			require.Equal(t, []int{2}, checkAll(t, disk, true))
			require.Empty(t, leftovers(t, disk))
		}
	}
	t.Logf("%d faults", faults)
	require.Greater(t, faults, 50)
}

func isPoison(f faultfs.Fault) bool {
	return strings.HasPrefix(f.Name, "sync") || strings.HasPrefix(f.Name, "close")
}

// leftovers is what is in the data directory besides snapshots.
func leftovers(t testing.TB, fsys fileutil.FS) (names []string) {
	entries, err := fsys.ReadDir(dataDir)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func requireNoneHalfAfterCrash(t testing.TB, disk *tsdbtest.MemFS) {
	t.Helper()
	for seed := range uint64(4) {
		checkAll(t, disk.CrashClone(tsdbtest.CrashOptions{Seed: seed}), false)
	}
}

// A power cut before any operation, with any part of what is not synced: a snapshot that has a name
// is whole, unless another one was there before.
func TestWriter_PowerCutAnywhere_NamesOnlyWholeOnes(t *testing.T) {
	disk := newDisk(t)
	states, named := 0, 0
	disk.SetHook(func(op tsdbtest.Op) error {
		for clone := range disk.CrashStates(30) {
			states++
			named += len(checkAll(t, clone, true))
			_, err := writeSnapshot(clone, 2, 1)
			require.NoError(t, err)
			require.Empty(t, leftovers(t, clone))
		}
		return nil
	})
	_, err := writeSnapshot(disk, 2, 40)
	require.NoError(t, err)
	disk.SetHook(nil)
	require.Greater(t, states, 50)
	require.Positive(t, named, "the last sync")
}

// It goes by its sidecar first: in any state that a power cut leaves it is whole or damage.
func TestRemove_SidecarFirst(t *testing.T) {
	disk := newDisk(t)
	_, err := writeSnapshot(disk, 2, 40)
	require.NoError(t, err)
	var removed []string
	halves := 0
	disk.SetHook(func(op tsdbtest.Op) error {
		if op.Kind != tsdbtest.OpRemove {
			return nil
		}
		removed = append(removed, filepath.Base(op.Name))
		if len(removed) > 1 {
			require.Empty(t, checkAll(t, disk.KillClone(), false), "it is none any more")
		}
		for clone := range disk.CrashStates(100) {
			list, err := List(clone, dataDir)
			require.NoError(t, err)
			if good := checkAll(t, clone, false); len(good) < len(list) {
				halves++
			}
		}
		return nil
	})
	list, err := List(disk, dataDir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, Remove(disk, list[0]))
	disk.SetHook(nil)
	require.Equal(t, []string{sidecarName, "00000000", Name(2)}, removed)
	require.Positive(t, halves)
	list, err = List(disk, dataDir)
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, Remove(disk, Found{Segment: 2, Path: filepath.Join(dataDir, Name(2))}), "it is gone already")
}

func TestRemove_AFaultIsAnErrorAndCanBeTriedAgain(t *testing.T) {
	kinds := []tsdbtest.OpKind{tsdbtest.OpRemove, tsdbtest.OpReadDir, tsdbtest.OpStat}
	for nth := int64(1); ; nth++ {
		disk := newDisk(t)
		_, err := writeSnapshot(disk, 2, 1)
		require.NoError(t, err)
		fsys := faultfs.New(disk)
		list, err := List(fsys, dataDir)
		require.NoError(t, err)
		fsys.Inject(faultfs.Fault{Kinds: kinds, Nth: nth})
		err = Remove(fsys, list[0])
		if len(fsys.Hits()) == 0 {
			require.NoError(t, err)
			require.Greater(t, nth, int64(4))
			return
		}
		require.Error(t, err)
		require.NoError(t, Remove(fsys, list[0]))
		require.Empty(t, checkAll(t, disk, true))
	}
}

// What an earlier one left, of the same name or aside, is no hindrance.
func TestCreate_TakesThePlaceOfWhatIsThere(t *testing.T) {
	disk := newDisk(t)
	tmp := filepath.Join(dataDir, tmpName)
	require.NoError(t, disk.MkdirAll(filepath.Join(tmp, "deep")))
	require.NoError(t, disk.WriteFile(filepath.Join(tmp, "00000000"), []byte("half")))
	require.NoError(t, disk.WriteFile(filepath.Join(tmp, "deep", "x"), nil))
	require.NoError(t, disk.MkdirAll(filepath.Join(dataDir, Name(2))))
	require.NoError(t, disk.WriteFile(filepath.Join(dataDir, Name(2), "00000009"), []byte("odd")))
	_, err := writeSnapshot(disk, 2, 5)
	require.NoError(t, err)
	require.Equal(t, []int{2}, checkAll(t, disk, true))
	require.Empty(t, leftovers(t, disk))
}

func TestWriter_PublishAfterTheEndOfTheContextDoesNothing(t *testing.T) {
	disk := newDisk(t)
	w, err := Create(disk, dataDir, Options{Start: testStart(1)})
	require.NoError(t, err)
	_, err = w.Finish(new(tombstones.Set), nil, func() (uint64, []chunks.HeadExtent, error) { return 0, nil, nil })
	require.NoError(t, err)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.Publish(gone), context.Canceled)
	require.NoError(t, w.Abort())
	require.Empty(t, checkAll(t, disk, true))
	require.Empty(t, leftovers(t, disk))
	require.Empty(t, disk.OpenHandles())
}

// More refs than one record may have.
func TestWriter_ManyGoneRefsAreSeveralRecords(t *testing.T) {
	disk := newDisk(t)
	gone := make([]Gone, maxGoneEntries+1)
	for i := range gone {
		gone[i] = Gone{Ref: uint64(i), Segment: i % 9}
	}
	w, err := Create(disk, dataDir, Options{Start: testStart(1)})
	require.NoError(t, err)
	meta, err := w.Finish(new(tombstones.Set), gone, func() (uint64, []chunks.HeadExtent, error) { return 0, nil, nil })
	require.NoError(t, err)
	require.NoError(t, w.Publish(context.Background()))
	var got []Gone
	err = wal.ReadSnapshot(context.Background(), wal.ReplayOptions{FS: disk, Dir: filepath.Join(dataDir, Name(1)), Decoders: 1, Apply: func(b *wal.Batch) error {
		for _, r := range b.Records {
			if KindOf(r.Data) == KindGone {
				list, err := DecodeGone(r.Data)
				require.NoError(t, err)
				got = append(got, list...)
			}
		}
		return nil
	}}, meta.Start, meta.Sum)
	require.NoError(t, err)
	require.Equal(t, gone, got)
}

func TestList_OddNames(t *testing.T) {
	disk := newDisk(t)
	for _, name := range []string{
		"head_snapshot.00000007", "head_snapshot.12", "head_snapshot.", "head_snapshot.x", "head_snapshot.-1", "head_snapshot.0",
		"head_snapshot.00000003.tmp", "head_snapshot.99999999999999999999", "head_snapshot", "chunk_snapshot.000001.0000000000", tmpName, "wal",
	} {
		require.NoError(t, disk.MkdirAll(filepath.Join(dataDir, name)))
	}
	require.NoError(t, disk.WriteFile(filepath.Join(dataDir, "head_snapshot.00000005"), []byte("a file")))
	list, err := List(disk, dataDir)
	require.NoError(t, err)
	var got []Found
	for _, f := range list {
		got = append(got, Found{Segment: f.Segment, Path: filepath.Base(f.Path)})
	}
	require.Equal(t, []Found{{7, "head_snapshot.00000007"}}, got)
	_, err = ReadMeta(disk, list[0].Path)
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
	require.NoError(t, Remove(disk, list[0]))
	left, err := disk.ReadDir(dataDir)
	require.NoError(t, err)
	require.Len(t, left, 12, "other names are not touched")
	_, err = List(disk, "nowhere")
	require.Error(t, err)
}

// What the snapshot builds on could not be made durable: there is none.
func TestWriter_AnErrorOfTheBaseEndsIt(t *testing.T) {
	disk := newDisk(t)
	broken := errors.New("extents")
	w, err := Create(disk, dataDir, Options{Start: testStart(1)})
	require.NoError(t, err)
	_, err = w.Finish(new(tombstones.Set), nil, func() (uint64, []chunks.HeadExtent, error) { return 0, nil, broken })
	require.ErrorIs(t, err, broken)
	require.NoError(t, w.Abort())
	require.Empty(t, leftovers(t, disk))
}
