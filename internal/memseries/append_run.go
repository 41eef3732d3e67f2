package memseries

import "github.com/seed347100a3/tsdb/chunkenc"

// runCap is the room for what a run adds to a chunk before the chunk is cut.
const runCap = maxChunkBytes + chunkenc.RunRoom

// appendRun is append for samples of one series, each newer than the one before, which is what
// recovery has: the rules of cutting are asked where they may answer otherwise than before, and not
// for each sample (BenchmarkReplay).
func (a *appender) appendRun(s *Series, run []chunkenc.Sample, buf []byte) {
	if len(run) == 1 {
		a.append(s, run[0].T, run[0].V)
		return
	}
	for len(run) > 0 {
		n := s.enc.Len()
		if t := run[0].T; t >= s.cutAt || n == a.cutting.Samples/4 || n >= 2*a.cutting.Samples || s.bytes.size > maxChunkBytes-wordBytes {
			if a.beforeAppend(s, t, run[0].V) {
				run = run[1:]
				continue
			}
			n = s.enc.Len()
		}
		out, taken := s.enc.AppendRun(buf[:0], run[:a.unasked(s, n, run)], maxChunkBytes-wordBytes-int(s.bytes.size))
		if len(out) > 0 {
			s.bytes.add(&a.pieces, out)
		}
		run = run[taken:]
	}
}

// unasked returns how many samples of a run go to the open chunk, which has n, unless it becomes
// too long: at least one, as the first was asked for.
func (a *appender) unasked(s *Series, n int, run []chunkenc.Sample) int {
	room := 2*a.cutting.Samples - n
	if quarter := a.cutting.Samples / 4; n < quarter {
		room = quarter - n
	}
	some := max(1, min(room, len(run)))
	for some > 1 && run[some-1].T >= s.cutAt {
		some--
	}
	return some
}
