package wal

import (
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/invariants"
)

// Record is one record of the log.
type Record struct {
	Data    []byte // uncompressed; belongs to the batch
	Seq     uint64 // of its commit; 0: taken by itself, from a segment or tail that has no frames
	Segment int    // number; of a record in a checkpoint the number of the file in there
	Offset  int64  // in the segment, bytes
}

// Batch is a run of whole commits, or of records taken by themselves, in log order.
// It is reused: what Decode and Apply get is theirs until Apply returns.
type Batch struct {
	Records []Record
	Index   int // of the batch in the log: 0, 1, 2, ...
	// Synced is the highest sequence number that is known to be on stable storage, as
	// far as the log was read. Set before Apply.
	Synced  uint64
	Scratch any // the owner's; stays with the batch when that is reused

	all    []Record // found in the log; Records is all of them unless some do not count
	spans  []span   // where the stored form of all[i] is
	kept   []Record // what Records is when something does not count
	failed []failedRecord
	units  []unit
	raw    []byte // stored records, and frames
	text   []byte // decompressed ones
	bytes  int64  // of the log up to the end of this batch
	ready  chan struct{}
}

// Batches are what one replay leaves to the next one, so that the memory of both is not needed
// at once. The zero value is empty. One replay at a time has it.
type Batches struct {
	left []*Batch
	buf  []byte // for reading segments
}

func (bs *Batches) take() *Batch {
	n := len(bs.left) - 1
	if n < 0 {
		return &Batch{ready: make(chan struct{}, 1)}
	}
	b := bs.left[n]
	bs.left = bs.left[:n]
	return b
}

// keep takes what is free when all goroutines of a replay have ended.
func (bs *Batches) keep(free chan *Batch, buf []byte) {
	bs.buf = buf
	for len(free) > 0 {
		bs.left = append(bs.left, <-free)
	}
}

// span is a stored record in Batch.raw.
type span struct {
	from, to int
	end      int64 // in the segment
	comp     Compression
}

// failedRecord is a record that cannot be decompressed.
type failedRecord struct {
	index  int // in Batch.all
	reason string
}

// unitKind is what the reading rules tell apart.
type unitKind uint8

const (
	unitCommit  unitKind = iota // records and the frame that closes them
	unitRecords                 // records that count by themselves
	unitOrphans                 // whole records that do not count, see reason
	unitHeader                  // of a segment
	unitCheckpointHeader
	unitCheckpointTrailer
	unitDamage
	unitSegment // the end of a segment
)

// unit is what the reading rules decide about as a whole.
type unit struct {
	kind     unitKind
	dropped  bool // by a rule
	skipped  bool // nobody wants its records
	seg      int  // index of the segment in the report
	off, end int64
	first, n int // records in Batch.all; of orphans n leaves empty ones out
	frame    frame
	from, to int // the frame's bytes in Batch.raw, without the checksum
	header   header
	trailer  trailer
	reason   string // of damage and orphans; of a commit: why it is bad, empty if it is good
}

func (b *Batch) reset(index int) {
	if invariants.Enabled { // who kept something of the records finds out
		scribble(b.raw[:cap(b.raw)])
		scribble(b.text[:cap(b.text)])
	}
	b.Records, b.Index = nil, index
	b.all, b.spans, b.kept, b.failed, b.units = b.all[:0], b.spans[:0], b.kept[:0], b.failed[:0], b.units[:0]
	b.raw, b.text = trimBatch(b.raw), trimBatch(b.text)
}

// scribble makes bytes what no record has.
func scribble(buf []byte) {
	for i := range buf {
		buf[i] = 0xdb
	}
}

// trimBatch empties a buffer, and drops one that a huge commit made, or that series records made,
// which compress well, and samples do not need.
func trimBatch(buf []byte) []byte {
	if cap(buf) > 32*batchBytes || cap(buf) > 4*max(batchBytes, len(buf)) {
		return nil
	}
	return buf[:0]
}

// skip marks the commits of which nobody wants the records.
func (b *Batch) skip(p *pipeline) {
	if p.skip == nil {
		return
	}
	for i := range b.units {
		if u := &b.units[i]; u.kind == unitCommit && u.seg >= p.report.cpNumber {
			u.skipped = p.skip(p.report.segments[u.seg].file.Number, u.frame.seq)
		}
	}
}

// decode decompresses the records and checks commits against their frames.
func (b *Batch) decode(d *decompressor) {
	d.begin()
	b.makeRoom()
	for i := range b.units {
		u := &b.units[i]
		switch u.kind {
		case unitCommit:
			b.decodeCommit(u, d)
		case unitRecords:
			for r := u.first; r < u.first+u.n; r++ {
				if reason := b.decodeRecord(r, d); reason != "" {
					b.failed = append(b.failed, failedRecord{index: r, reason: reason})
				}
			}
		}
	}
	b.collect()
}

// makeRoom takes memory for the records at once, where they say how long they are.
func (b *Batch) makeRoom() {
	n := 0
	for i := range b.units {
		if u := &b.units[i]; !u.skipped {
			for _, s := range b.spans[u.first : u.first+u.n] {
				n += decodedLen(s.comp, b.raw[s.from:s.to])
			}
		}
	}
	if cap(b.text) < n {
		b.text = make([]byte, 0, n+n/8)
	}
}

func (b *Batch) decodeCommit(u *unit, d *decompressor) {
	if u.reason != "" || u.skipped {
		return
	}
	sum := uint32(0)
	for r := u.first; r < u.first+u.n; r++ {
		if u.reason = b.decodeRecord(r, d); u.reason != "" {
			return
		}
		sum = commitSum(sum, b.all[r].Data)
	}
	if encbuf.UpdateChecksum(sum, b.raw[u.from:u.to]) != u.frame.crc {
		u.reason = "commit does not match the checksum of its frame"
	}
}

// decodeRecord gives record i its data, or returns why it has none.
func (b *Batch) decodeRecord(i int, d *decompressor) (reason string) {
	s := b.spans[i]
	stored := b.raw[s.from:s.to:s.to]
	if s.comp == CompressionNone {
		b.all[i].Data = stored
		return ""
	}
	start := len(b.text)
	text, err := d.appendDecoded(b.text, s.comp, stored)
	if err != nil {
		return "record cannot be decompressed: " + err.Error()
	}
	if d.makesWay {
		d.way.Add(len(text)-start, wayBytes)
	}
	b.text = text
	b.all[i].Data = text[start:len(text):len(text)]
	return ""
}

// collect makes Records what counts: good commits and records that nothing dropped.
func (b *Batch) collect() {
	n, plain := 0, len(b.failed) == 0
	for i := range b.units {
		if b.units[i].counts() {
			n += b.units[i].n
		}
	}
	if plain && n == len(b.all) {
		b.Records = b.all
		return
	}
	b.kept = b.kept[:0]
	failed := b.failed
	for i := range b.units {
		u := &b.units[i]
		for r := u.first; r < u.first+u.n; r++ {
			for len(failed) > 0 && failed[0].index < r {
				failed = failed[1:]
			}
			if u.counts() && (len(failed) == 0 || failed[0].index != r) {
				b.kept = append(b.kept, b.all[r])
			}
		}
	}
	b.Records = b.kept
}

// counts says that the unit's records are part of the log, and wanted.
//
//go:noinline
func (u *unit) counts() bool {
	return !u.dropped && !u.skipped && (u.kind == unitRecords || u.kind == unitCommit && u.reason == "")
}
