package wal

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// segmentBuilder makes segments byte by byte, also such as a Log never writes.
type segmentBuilder struct {
	buf  []byte
	told uint64 // the watermark of the header or the last full frame
}

func (b *segmentBuilder) raw(rec []byte) *segmentBuilder {
	b.buf = appendRecord(b.buf, int64(len(b.buf)), CompressionNone, rec)
	return b
}

func (b *segmentBuilder) header(segment, next, synced uint64) *segmentBuilder {
	b.told = synced
	return b.raw(appendHeader(nil, header{segment: segment, nextSeq: next, nextRef: 1, synced: synced}))
}

// commit appends small commit seq; with bad its checksum is wrong.
func (b *segmentBuilder) commit(seq, synced uint64, bad ...bool) *segmentBuilder {
	sum, body := uint32(0), smallBody(seq)
	for _, rec := range body {
		sum = commitSum(sum, rec)
		b.raw(rec)
	}
	if len(bad) > 0 {
		sum++
	}
	if len(body) == 1 && synced == b.told {
		return b.raw(appendShortFrame(nil, seq, sum))
	}
	b.told = synced
	return b.raw(appendFrame(nil, frame{seq: seq, records: uint64(len(body)), lag: seq - synced}, sum))
}

func (b *segmentBuilder) commits(from, to, synced uint64) *segmentBuilder {
	for seq := from; seq <= to; seq++ {
		b.commit(seq, synced)
	}
	return b
}

func ours(segment, next, synced uint64) *segmentBuilder {
	return new(segmentBuilder).header(segment, next, synced)
}

func recs(text ...string) (out [][]byte) {
	for _, s := range text {
		out = append(out, []byte(s))
	}
	return out
}

func TestReplay_ReadingRules(t *testing.T) {
	foreign := foreignSegment(CompressionSnappy, recs("\x01f1", "\x02f2")...)
	for _, tc := range []struct {
		name     string
		segments [][]byte
		want     []uint64 // commits
		single   []string
		lastSeq  uint64
		lost     int // commits at or below the watermark
		torn     bool
	}{
		{name: "an empty directory", want: nil},
		{name: "empty segments anywhere",
			segments: [][]byte{{}, ours(1, 1, 0).commits(1, 2, 0).buf, {}, {}},
			want:     upTo(2), lastSeq: 2},
		{name: "a header alone knows the next number",
			segments: [][]byte{ours(0, 51, 50).buf}, lastSeq: 50},
		{name: "pages of zeros, with commits behind them",
			segments: [][]byte{append(append(ours(0, 1, 0).commits(1, 2, 0).buf, make([]byte, 5*PageSize)...)[:PageSize*2:PageSize*2],
				new(segmentBuilder).commits(3, 4, 0).buf...)},
			want: upTo(4), lastSeq: 4},
		{name: "commits missing in front of a frame, above the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(5, 6, 1).buf},
			want:     upTo(3), lastSeq: 3, torn: true},
		{name: "commits missing in front of a frame, below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(5, 6, 4).buf},
			want:     upTo(6, 4), lastSeq: 6, lost: 1},
		{name: "the watermark stands in a later segment",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(5, 6, 1).buf, ours(1, 7, 6).commits(7, 8, 6).buf},
			want:     upTo(8, 4), lastSeq: 8, lost: 1},
		{name: "only some of the missing ones are below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(6, 7, 4).buf},
			want:     upTo(3), lastSeq: 4, torn: true},
		{name: "commits missing in front of a header, above the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).buf, ours(1, 5, 3).commits(5, 6, 3).buf},
			want:     upTo(3), lastSeq: 3, torn: true},
		{name: "commits missing in front of a header, below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).buf, ours(1, 5, 4).commits(5, 6, 4).buf},
			want:     upTo(6, 4), lastSeq: 6, lost: 1},
		{name: "commits missing at the end, below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).buf, ours(1, 4, 5).buf},
			want:     upTo(3), lastSeq: 5, lost: 2},
		{name: "a bad frame above the watermark ends the log, and with it what others wrote not at all",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 1).buf},
			want:     upTo(3), lastSeq: 3, torn: true},
		{name: "a bad frame below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 4).buf},
			want:     upTo(6, 4), lastSeq: 6, lost: 1},
		{name: "a repeated number above the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(3, 5, 1).buf},
			want:     upTo(3), lastSeq: 3, torn: true},
		{name: "a repeated number below the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 1).commits(3, 5, 3).buf},
			want:     upTo(5), lastSeq: 5, lost: 1},
		{name: "records without a frame at the end",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).raw([]byte("\x02half")).buf},
			want:     upTo(2), lastSeq: 2, torn: true},
		{name: "records without a frame, then a whole commit",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).raw([]byte("\x02half")).commits(3, 4, 0).buf},
			want:     upTo(4), lastSeq: 4},
		{name: "a tail that the next segment of ours does not miss",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).raw([]byte("\x02half")).buf, ours(1, 3, 2).commits(3, 4, 2).buf},
			want:     upTo(4), lastSeq: 4},
		{name: "records of others",
			segments: [][]byte{foreign}, single: []string{"\x01f1", "\x02f2"}},
		{name: "others before us and after us",
			segments: [][]byte{foreign, ours(1, 1, 0).commits(1, 2, 0).buf, foreign},
			want:     upTo(2), single: []string{"\x01f1", "\x02f2", "\x01f1", "\x02f2"}, lastSeq: 2},
		{name: "a tail that others continued counts record by record",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).raw([]byte("\x02half")).buf, {}, foreign},
			want:     upTo(2), single: []string{"\x02half", "\x01f1", "\x02f2"}, lastSeq: 2},
		{name: "a tail before an empty segment of others is torn",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).raw([]byte("\x02half")).buf, {}},
			want:     upTo(2), lastSeq: 2, torn: true},
		{name: "damage that others read past stays alone, whatever the watermark",
			segments: [][]byte{ours(0, 1, 0).commits(1, 3, 0).commit(4, 0, true).commits(5, 6, 0).buf, foreign},
			want:     upTo(6, 4), single: []string{"\x01f1", "\x02f2"}, lastSeq: 6, lost: 1},
		{name: "a segment that lost its header is ours by its frames",
			segments: [][]byte{ours(0, 1, 0).commits(1, 2, 0).buf, append([]byte{9, 9, 9, 9, 9, 9, 9}, make([]byte, 0)...)},
			want:     upTo(2), lastSeq: 2, torn: true},
		{name: "unknown private records are records",
			segments: [][]byte{foreignSegment(CompressionNone, []byte{0x90, 1}, []byte{0x85})},
			single:   []string{"\x90\x01", "\x85"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := diskWith(t, tc.segments...)
			got := replay(t, fsys, 1)
			require.Equal(t, tc.want, got.order)
			for _, seq := range got.order {
				require.Equal(t, texts(smallBody(seq)), got.commits[seq])
			}
			require.Equal(t, tc.single, got.single)
			require.Equal(t, tc.torn, got.TornTail, "%v", got.Damages)
			require.Equal(t, tc.lastSeq, got.LastSeq)
			if !tc.torn {
				require.Equal(t, tc.lost, got.DroppedCommits)
			}
			require.Equal(t, tc.lost > 0 || tc.torn || hasHalf(tc.segments) && !tc.torn && len(tc.single) == 0, len(got.Damages) > 0)
			settle(t, fsys, got)
		})
	}
}

// hasHalf says that a segment has records without a frame.
func hasHalf(segments [][]byte) bool {
	return bytes.Contains(bytes.Join(segments, nil), []byte("\x02half"))
}

func TestReplay_DamagedForeignRecordIsLostAlone(t *testing.T) {
	seg := foreignSegment(CompressionSnappy, recs("\x01one", "\x02two", "\x02three")...)
	items := readItems(t, seg)
	for bit := range 8 * (items[1].end - items[1].off) {
		damaged := bytes.Clone(seg)
		damaged[items[1].off+bit/8] ^= 1 << (bit % 8)
		fsys := diskWith(t, damaged, foreignSegment(CompressionNone, recs("\x02four")...))
		got := replay(t, fsys, 1)
		if len(got.Damages) == 0 {
			require.Contains(t, []int64{3, 4, 5, 6, 7}, bit, "only the type byte is under no checksum")
			continue
		}
		require.Equal(t, []string{"\x01one", "\x02three", "\x02four"}, got.single, "bit %d", bit)
		require.Equal(t, 1, got.DroppedRecords)
		require.False(t, got.TornTail)
		settle(t, fsys, got)
	}
}

func TestReplay_TornLastRecordOfOthersIsATornTail(t *testing.T) {
	seg := foreignSegment(CompressionNone, recs("\x01one", "\x02two")...)
	for cut := int64(len(seg)) - 1; cut > readItems(t, seg)[1].off; cut-- {
		fsys := diskWith(t, seg[:cut])
		got := replay(t, fsys, 1)
		require.Equal(t, []string{"\x01one"}, got.single)
		require.True(t, got.TornTail)
		settle(t, fsys, got)
	}
}

func TestReplay_FirstFragmentWithoutItsLastIsFoundBeforePadding(t *testing.T) {
	long := foreignSegment(CompressionNone, []byte("\x01one"), noise(1, 2*PageSize))
	for _, zeros := range []int{0, 1, 500, PageSize, 3 * PageSize} {
		seg := append(bytes.Clone(long[:PageSize]), make([]byte, zeros)...)
		fsys := diskWith(t, seg, foreignSegment(CompressionNone, recs("\x02after")...))
		got := replay(t, fsys, 1)
		require.Equal(t, []string{"\x01one", "\x02after"}, got.single)
		require.Len(t, got.Damages, 1)
		require.EqualValues(t, 11, got.Damages[0].Offset)
		settle(t, fsys, got)
	}
}

func TestReplay_NewerPrivateRecordRefusesTheDirectory(t *testing.T) {
	h := appendHeader(nil, header{segment: 1, nextSeq: 1})
	h[1]++
	fsys := diskWith(t, ours(0, 1, 0).commits(1, 2, 0).buf, new(segmentBuilder).raw(h).buf)
	_, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir})
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, segmentPath(1))
	require.Empty(t, fsys.OpenHandles())
}

func TestReplay_SegmentsThatDoNotFitTogetherAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		names string // in the error
	}{
		{"a hole", []string{"00000000", "00000002"}, "00000001"},
		{"no beginning", []string{"00000003", "00000004"}, "00000000"},
		{"no segment right behind the checkpoint", []string{"checkpoint.00000002/00000000", "00000004"}, "00000003"},
		{"a number twice", []string{"00000000", "0"}, "00000000"},
		{"a directory with a number", []string{"00000000", "100/x"}, "100"},
		{"a negative number", []string{"00000000", "-1"}, "-1"},
		{"a hole in the checkpoint", []string{"checkpoint.00000002/00000000", "checkpoint.00000002/00000002", "00000003"}, "00000001"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			for _, f := range tc.files {
				putFile(t, fsys, testDir+"/"+f, nil)
			}
			_, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir})
			require.ErrorIs(t, err, ErrSegments)
			require.ErrorContains(t, err, tc.names)
		})
	}
}

func TestReplay_StrangersInTheDirectoryAreNotLookedAt(t *testing.T) {
	fsys := diskWith(t, ours(0, 1, 0).commits(1, 2, 0).buf)
	for _, name := range []string{"checkpoint.00000007.tmp/00000000", "checkpoint.00000003.bad/x", "index.json", "00000000.idx", "series_state.json"} {
		putFile(t, fsys, testDir+"/"+name, []byte("stranger"))
	}
	got := replay(t, fsys, 1)
	requireSmall(t, got, upTo(2)...)
	settle(t, fsys, got)
	_, err := fsys.ReadFile(testDir + "/series_state.json")
	require.Error(t, err, "the hint does not hold any more")
}

func TestReplay_ErrorsOfApplyAndContextEndIt(t *testing.T) {
	var segments [][]byte
	for i := range uint64(20) {
		b := ours(i, 1+i*30, 0)
		for seq := 1 + i*30; seq <= 30+i*30; seq++ {
			b.raw(noise(uint32(seq), 20000))
			b.raw(appendFrame(nil, frame{seq: seq, records: 1, lag: seq}, commitSum(0, noise(uint32(seq), 20000))))
		}
		segments = append(segments, b.buf)
	}
	fsys := diskWith(t, segments...)
	boom := errors.New("boom")
	calls := 0
	_, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir, Decoders: 2, Apply: func(*Batch) error {
		if calls++; calls == 3 {
			return boom
		}
		return nil
	}})
	require.ErrorIs(t, err, boom)
	require.Equal(t, 3, calls)

	ctx, cancel := context.WithCancel(context.Background())
	_, err = Replay(ctx, ReplayOptions{FS: fsys, Dir: testDir, Decoders: 2, Apply: func(*Batch) error {
		cancel()
		return nil
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, fsys.OpenHandles())

	done, total := int64(0), int64(0)
	r, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir, Progress: func(d, n int64) {
		require.Greater(t, d, done)
		done, total = d, n
	}})
	require.NoError(t, err)
	require.Equal(t, 600, r.Commits)
	require.Equal(t, total, done)
	require.Equal(t, r.Bytes, total)
}

// checkpointFile returns a checkpoint as this library writes it.
func checkpointFile(n uint64, damage func(*trailer), records ...string) []byte {
	b := new(segmentBuilder)
	h := appendHeader(nil, header{segment: n, nextSeq: 1, nextRef: 40, synced: 2})
	h[0] = typeCheckpointHeader
	h = append(h[:len(h)-crcSize], 0, 0, 0, 0)
	h = appendChecksum(h[:len(h)-crcSize])
	b.raw(h)
	var tr trailer
	for _, r := range records {
		tr.records++
		tr.crc = commitSum(tr.crc, []byte(r))
		b.raw([]byte(r))
	}
	if damage != nil {
		damage(&tr)
	}
	return b.raw(appendTrailer(nil, tr)).buf
}

func TestReplay_CheckpointComesFirst(t *testing.T) {
	log := ours(3, 1, 0).commits(1, 2, 0).buf
	for _, tc := range []struct {
		name    string
		files   map[string][]byte
		single  []string
		foreign bool
		damages int
		nextRef uint64
	}{
		{"of others", map[string][]byte{"checkpoint.00000002/00000000": foreignSegment(CompressionSnappy, recs("\x01c1", "\x02c2")...)},
			[]string{"\x01c1", "\x02c2"}, true, 0, 1},
		{"of others, empty", map[string][]byte{"checkpoint.00000002/00000000": nil}, nil, true, 0, 1},
		{"of others, in two segments", map[string][]byte{
			"checkpoint.00000002/00000000": foreignSegment(CompressionSnappy, recs("\x01c1")...),
			"checkpoint.00000002/00000001": foreignSegment(CompressionZstd, recs("\x02c2")...)},
			[]string{"\x01c1", "\x02c2"}, true, 0, 1},
		{"the highest counts", map[string][]byte{
			"checkpoint.00000001/00000000": foreignSegment(CompressionSnappy, recs("\x01old")...),
			"checkpoint.00000002/00000000": foreignSegment(CompressionSnappy, recs("\x01c1")...),
			"00000001":                     foreignSegment(CompressionSnappy, recs("\x01covered")...)},
			[]string{"\x01c1"}, true, 0, 1},
		{"ours", map[string][]byte{"checkpoint.00000002/00000000": checkpointFile(2, nil, "\x01c1", "\x02c2")},
			[]string{"\x01c1", "\x02c2"}, false, 0, 40},
		{"ours, with a record too few", map[string][]byte{"checkpoint.00000002/00000000": checkpointFile(2, func(tr *trailer) { tr.records++ }, "\x01c1")},
			[]string{"\x01c1"}, false, 1, 40},
		{"ours, with another checksum", map[string][]byte{"checkpoint.00000002/00000000": checkpointFile(2, func(tr *trailer) { tr.crc++ }, "\x01c1")},
			[]string{"\x01c1"}, false, 1, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			for name, data := range tc.files {
				putFile(t, fsys, testDir+"/"+name, data)
			}
			putFile(t, fsys, segmentPath(3), log)
			got := replay(t, fsys, 1)
			require.Equal(t, tc.single, got.single)
			require.Equal(t, upTo(2), got.order)
			require.Equal(t, 2, got.Checkpoint)
			require.Equal(t, tc.foreign, got.ForeignCheckpoint)
			require.Equal(t, tc.nextRef, got.NextRef)
			require.Len(t, got.Damages, tc.damages)
			require.False(t, got.TornTail)
			after := settle(t, fsys, got)
			require.Empty(t, after.Damages, "repair made the trailer match")
			require.Equal(t, 4, got.listing.Next())
		})
	}
}

func TestReplay_LogThatEndsRightBehindTheCheckpointKeepsIt(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	putFile(t, fsys, testDir+"/checkpoint.00000002/00000000", foreignSegment(CompressionSnappy, recs("\x01c1")...))
	putFile(t, fsys, segmentPath(3), new(segmentBuilder).commit(1, 0, true).commits(2, 3, 0).buf)
	putFile(t, fsys, segmentPath(4), ours(4, 4, 0).commits(4, 5, 0).buf)
	got := replay(t, fsys, 1)
	require.Equal(t, []string{"\x01c1"}, got.single)
	require.Empty(t, got.order)
	require.True(t, got.TornTail)
	require.Equal(t, 5, got.DroppedCommits)
	at := repair(t, fsys, got)
	require.Equal(t, 4, at.Segment, "segment 3 stays: one must follow the checkpoint")
	require.Empty(t, replay(t, fsys, 1).Damages)
}

func TestReplay_NoFlippedBitOfOurCheckpointIsSilent(t *testing.T) {
	cp := checkpointFile(2, nil, "\x01c1", "\x02c2", "\x02c3")
	for bit := range 8 * len(cp) {
		damaged := bytes.Clone(cp)
		damaged[bit/8] ^= 1 << (bit % 8)
		fsys := tsdbtest.NewMemFS()
		putFile(t, fsys, testDir+"/checkpoint.00000002/00000000", damaged)
		putFile(t, fsys, segmentPath(3), ours(3, 1, 0).commits(1, 2, 0).buf)
		got := replay(t, fsys, 1)
		require.Equal(t, upTo(2), got.order)
		require.False(t, got.TornTail)
		if len(got.Damages) == 0 {
			require.True(t, isSpareBit(t, cp, bit), "bit %d", bit)
			require.Len(t, got.single, 3)
			continue
		}
		require.GreaterOrEqual(t, len(got.single), 2, "bit %d", bit)
		after := settle(t, fsys, got)
		require.Empty(t, after.Damages)
		quarantined, err := fsys.ReadFile(testQuarantine + "/checkpoint.00000002-00000000")
		require.NoError(t, err)
		require.Equal(t, damaged, quarantined)
	}
}

func TestRepair_CoveredSegmentsThatLeaveAHoleGo(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	putFile(t, fsys, testDir+"/checkpoint.00000006/00000000", nil)
	for _, n := range []int{3, 4, 7} {
		putFile(t, fsys, segmentPath(n), nil)
	}
	got := replay(t, fsys, 1)
	require.Equal(t, 8, repair(t, fsys, got).Segment)
	list, err := List(fsys, testDir)
	require.NoError(t, err)
	require.Empty(t, list.Covered)
}

func TestReplay_ManyDamagesAreCountedNotListed(t *testing.T) {
	var seg []byte
	const n = maxDamages + 50
	for i := range n {
		from := len(seg)
		seg = appendRecord(seg, int64(from), CompressionNone, fmt.Appendf(nil, "\x02bad %d", i))
		seg[len(seg)-1] ^= 1
		seg = appendRecord(seg, int64(len(seg)), CompressionNone, fmt.Appendf(nil, "\x02good %d", i))
	}
	got := replay(t, diskWith(t, seg), 1)
	require.Len(t, got.single, n)
	require.Len(t, got.Damages, maxDamages)
	require.Equal(t, 50, got.OmittedDamages)
	require.Equal(t, n, got.DroppedRecords)
}

// A crash while a segment is begun leaves a part of its header. That is no record: nobody
// misses it. Among segments of somebody else the same bytes are at least one.
func TestReplay_ATornHeaderIsNoDroppedRecord(t *testing.T) {
	torn := ours(1, 3, 2).buf[:10]
	for _, tc := range []struct {
		name     string
		segments [][]byte
		want     int
	}{
		{"alone", [][]byte{torn}, 0},
		{"behind ours", [][]byte{ours(0, 1, 0).commits(1, 2, 0).buf, torn}, 0},
		{"behind theirs", [][]byte{foreignSegment(CompressionNone, recs("\x01f1")...), {}, torn}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := tsdbtest.NewMemFS()
			for i, data := range tc.segments {
				putFile(t, disk, segmentPath(i), data)
			}
			got := replay(t, disk, 1)
			require.True(t, got.TornTail)
			require.Len(t, got.Damages, 1)
			require.Equal(t, tc.want, got.DroppedRecords)
			require.Equal(t, tc.want, got.Damages[0].Records)
			require.EqualValues(t, len(torn), got.DroppedBytes)
		})
	}
}

// The first bytes of a frame, and zeros behind them, are a whole and empty record: the
// checksum of nothing is zero. No record was dropped but those of the commit.
func TestReplay_ATornFrameIsNoDroppedRecord(t *testing.T) {
	for _, behind := range []int{0, 1} {
		torn, dropped := ours(0, 1, 0).commit(1, 0).buf, len(smallBody(1))
		items := readItems(t, torn)
		clear(torn[items[len(items)-1].off+2:])
		segments := [][]byte{torn}
		if behind > 0 { // the log ends before a commit that comes too early
			segments = append(segments, ours(1, 2, 0).commit(2, 0).buf)
			dropped += len(smallBody(2))
		}
		disk := diskWith(t, segments...)
		got := replay(t, disk, 1)
		require.True(t, got.TornTail)
		require.Equal(t, dropped, got.DroppedRecords)
	}
}
