package memseries

import (
	"encoding/binary"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

const (
	// wordBytes is how much shorter than its chunk the written part can be: the
	// encoder keeps back less than a word.
	wordBytes = 8
	// chunkCap holds any chunk that grew sample by sample.
	chunkCap = chunkenc.TargetBytes + 2*xorchunk.MaxSampleBytes
)

// runCap is the room for what a run adds to a chunk before the chunk is cut.
const runCap = chunkenc.TargetBytes + xorchunk.RunRoom

// Cutting is when chunks are cut (docs/format/chunks.md).
type Cutting struct {
	Range   int64 // milliseconds; no chunk crosses a multiple of it
	Samples int   // aimed at in a chunk; twice as many are the limit
}

// Full is a chunk that was cut and is not in a head-chunk file yet.
type Full struct {
	Series     *Series
	MinT, MaxT int64
	Num        uint16
	Encoding   chunkenc.Encoding
	Seq        uint64 // newest commit with a sample in it; 0 when the log has none
	Data       []byte // a finished chunk; recovery fills it in when it is needed (AppendData)

	bytes chunkBytes // the same in pieces
	ref   chunks.Ref // of waiting
}

// Size returns how many bytes the chunk has.
func (f *Full) Size() int { return int(f.bytes.size) }

// fullChunk is a Full where it is kept: a finished chunk that stays in the pieces in which
// it grew, so that cutting copies and allocates nothing (BenchmarkCut). The number of samples, with
// which a chunk of EncXOR begins, is not in the pieces yet: the first of them has left the caches.
type fullChunk struct {
	series     *Series
	minT, maxT int64
	seq        uint64
	bytes      chunkBytes
	num        uint16
	encoding   chunkenc.Encoding

	taken bool // CollectFull gave it out: its bytes may be on their way to a file
}

// given returns what others get of it.
func (f *fullChunk) given() Full {
	return Full{Series: f.series, MinT: f.minT, MaxT: f.maxT, Num: f.num, Encoding: f.encoding, Seq: f.seq, bytes: f.bytes}
}

// appendTo appends the finished chunk to dst.
func (f *fullChunk) appendTo(dst []byte, a *pieceArena) []byte {
	from := len(dst)
	dst = f.bytes.appendTo(dst, a)
	putCount(dst[from:], f.encoding, f.num)
	return dst
}

// putCount puts the number of its samples into a chunk that does not have it yet.
func putCount(chunk []byte, enc chunkenc.Encoding, num uint16) {
	if enc == chunkenc.EncXOR {
		binary.BigEndian.PutUint16(chunk, num)
	}
}

// kept is the chunk as it was before it was given.
func (f *Full) kept() fullChunk {
	return fullChunk{series: f.Series, minT: f.MinT, maxT: f.MaxT, num: f.Num, encoding: f.Encoding, seq: f.Seq, bytes: f.bytes}
}

// filler is what filling open chunks needs beside the series: where bytes go and where full
// chunks do. A shard and a recovery worker each have one.
type filler struct {
	cutting Cutting
	limit   int64 // a chunk that begins before it ends there (CutAt); NoTime: none
	pieces  pieces
	onFull  func(fullChunk) chunks.Ref
	seq     uint64 // commit being applied
	scratch [xorchunk.MaxSampleBytes]byte
	wide    wideChunks // open ones that are not of EncXOR
	mapped  mappedLists

	openLeft   int64                          // chunks that were opened less those that are open no more; of all fillers it is how many are open
	begun      uint64                         // chunks that samples made necessary, or a border
	encodingOf func(Mapped) chunkenc.Encoding // of a chunk in a file; nil: not asked
}

// append adds one sample that is newer than all others of the series.
//
// The common case is a few comparisons and the encoder; what happens once in a chunk, and with
// each sample of a wide one, is out of line. Most samples leave no whole word behind, and then
// nothing is copied.
func (f *filler) append(s *Series, t int64, v float64) {
	n := s.enc.Len()
	if t >= s.cutAt || n == f.cutting.Samples/4 || n >= 2*f.cutting.Samples || s.bytes.size > chunkenc.TargetBytes-wordBytes {
		if f.beforeAppend(s, t, v) {
			return
		}
	}
	if out := s.enc.Append(f.scratch[:0], t, v); len(out) > 0 {
		s.bytes.add(&f.pieces, out)
	}
}

// beforeAppend handles a chunk that may be over: by size first, as the order of the
// rules says, then by its end, which is estimated once a quarter is filled. It reports whether the
// sample, a float, went to a wide chunk.
func (f *filler) beforeAppend(s *Series, t int64, v float64) (done bool) {
	if s.isWide() {
		return f.appendFloatToWide(s, t, v) // or a chunk was begun for it
	}
	n := s.enc.Len()
	if n == 0 {
		if w := floatSample(t, v, 0); f.endsHistograms(s, &w) {
			f.appendWide(s, &w)
			return true
		}
	}
	if n == 0 || int(s.bytes.size)+s.enc.PendingBytes() > chunkenc.TargetBytes {
		f.cut(s, t, chunkenc.EncXOR)
		return false
	}
	if n == f.cutting.Samples/4 {
		s.cutAt = min(s.cutAt, endTime(s.enc.FirstT(), s.enc.LastT(), s.cutAt, 4))
	}
	if t >= s.cutAt || n >= 2*f.cutting.Samples {
		f.cut(s, t, chunkenc.EncXOR)
	}
	return false
}

// appendRun is append for samples of one series, each newer than the one before, which is what
// recovery has: the rules of cutting are asked where they may answer otherwise than before, and not
// for each sample (BenchmarkReplay).
func (f *filler) appendRun(s *Series, run []xorchunk.Sample, buf []byte) {
	if len(run) == 1 {
		f.append(s, run[0].T, run[0].V)
		return
	}
	for len(run) > 0 {
		n := s.enc.Len()
		if t := run[0].T; t >= s.cutAt || n == f.cutting.Samples/4 || n >= 2*f.cutting.Samples || s.bytes.size > chunkenc.TargetBytes-wordBytes {
			if f.beforeAppend(s, t, run[0].V) {
				run = run[1:]
				continue
			}
			n = s.enc.Len()
		}
		out, taken := s.enc.AppendRun(buf[:0], run[:f.unasked(s, n, run)], chunkenc.TargetBytes-wordBytes-int(s.bytes.size))
		if len(out) > 0 {
			s.bytes.add(&f.pieces, out)
		}
		run = run[taken:]
	}
}

// unasked returns how many samples of a run go to the open chunk, which has n, unless it becomes
// too long: at least one, as the first was asked for.
func (f *filler) unasked(s *Series, n int, run []xorchunk.Sample) int {
	room := 2*f.cutting.Samples - n
	if quarter := f.cutting.Samples / 4; n < quarter {
		room = quarter - n
	}
	some := max(1, min(room, len(run)))
	for some > 1 && run[some-1].T >= s.cutAt {
		some--
	}
	return some
}

// cut closes the open chunk, if there is one, and opens the next for a sample at t.
func (f *filler) cut(s *Series, t int64, enc chunkenc.Encoding) {
	if s.enc.Len() > 0 {
		f.closeChunk(s)
	}
	f.open(s, t, enc)
}

// open begins a chunk for a sample at t that needs an encoding. The bytes of the chunk before it
// are gone.
func (f *filler) open(s *Series, t int64, enc chunkenc.Encoding) {
	s.cutAt = RangeEnd(t, f.cutting.Range)
	if t < f.limit {
		s.cutAt = min(s.cutAt, f.limit)
	}
	s.enc.Reset()
	if s.isWide() || enc != chunkenc.EncXOR {
		f.openWide(s, t, enc)
	}
	f.openLeft++
	f.begun++
}

// closeChunk hands the open chunk over as a full one.
func (f *filler) closeChunk(s *Series) {
	m := Mapped{MinT: s.enc.FirstT(), MaxT: s.enc.LastT(), Num: uint16(s.enc.Len())}
	enc := chunkenc.EncXOR
	if s.isWide() {
		enc = f.wide.finish(s, &f.pieces)
	} else {
		s.bytes.finish(&f.pieces, &s.enc)
	}
	m.Ref = f.onFull(fullChunk{series: s, minT: m.MinT, maxT: m.MaxT, num: m.Num, encoding: enc, seq: f.seq, bytes: s.bytes})
	f.mapped.add(s, m)
	f.openLeft--
	s.bytes = chunkBytes{}
}

// dropOpen forgets the open chunk, of which nothing is wanted any more.
func (f *filler) dropOpen(s *Series) {
	s.bytes.drop(&f.pieces)
	f.wide.close(s)
	f.openLeft--
}

// RangeEnd returns the end of the block range of width r, in milliseconds, that t lies in: no chunk
// crosses it. Division truncates toward zero, as the format's writers do, so the range around 0 is
// twice as wide. Near the end of time it stays at the end.
func RangeEnd(t, r int64) int64 {
	start := t / r * r
	if start > math.MaxInt64-r {
		return math.MaxInt64
	}
	return start + r
}

// endTime estimates where the open chunk should end so that the rest of its range is
// filled by chunks of equal size: start and cur are its first and newest time, limit
// the end of its range, ratio how much of it is filled (4: a quarter).
func endTime(start, cur, limit int64, ratio float64) int64 {
	n := float64(limit-start) / (float64(cur-start+1) * ratio)
	if n <= 1 {
		return limit
	}
	return int64(float64(start) + float64(limit-start)/math.Floor(n))
}
