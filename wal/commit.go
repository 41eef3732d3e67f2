package wal

// maxKeptBuffer is how many bytes of one record buffer a Commit keeps for its next use in any case.
// A larger one stays as long as commits fill a fourth of it. A huge commit now and then shall not
// pin its memory for ever. But to grow anew for each of many is a fourth of the time of making
// series with labels of 4 KiB.
const maxKeptBuffer = 1 << 20

// kept returns a buffer for its next use, nil if it is too large for what it was used for.
func kept(buf []byte, used int) []byte {
	if cap(buf) > max(maxKeptBuffer, 4*used) {
		return nil
	}
	return buf
}

// Commit collects the records of one commit. It is reusable: Reset, then any number
// of Begin and End pairs, Log.Enqueue before, between or after them, then Log.Write.
// The zero Commit is ready for use. It belongs to one goroutine at a time and to one
// Log between Enqueue and the end of Write.
type Commit struct {
	// Apply, unless it is nil, brings the commit into memory. It is called once the commit is in
	// the log and before Write returns, under SyncCommit by whoever leads its group, one commit
	// after the other, otherwise by its owner. Groups may overlap, so it waits for its turn itself;
	// it must not wait for what an owner does after Write, nor for later commits, nor panic. Reset
	// leaves it.
	Apply func()

	seq    uint64
	bodies [][]byte // as encoded by the owner; the first n are of this commit
	n      int

	// What Write makes of the bodies, outside the log's lock.
	stored []storedRecord
	sum    uint32 // commitSum over the bodies
	err    error  // before the commit is done: why it cannot be written

	// Guarded by commitQueue.mu until done; a wake-up hands them to the owner.
	state commitState
	next  *Commit       // behind this one in the queue, and then in the leader's list of written ones
	wake  chan struct{} // capacity 1: the commit is done, or its owner leads

	expires bool  // Expires was called,
	expiry  int64 // with this

	rotate   bool   // no commit, but a request to begin a new segment
	start    Start  // the segment that began with this commit or request
	frameSum uint32 // checksum of the frame
}

// storedRecord is a record as it goes into the log.
type storedRecord struct {
	data []byte // aliases the body or buf
	kind Compression
	buf  []byte // kept for the next compression
}

// commitState is where a commit is in its life.
type commitState uint8

const (
	stateIdle   commitState = iota // not in a queue
	stateQueued                    // has its sequence number, bodies may be missing
	stateReady                     // can be written
	stateDone                      // written or failed; err says which
)

// Reset makes the commit empty. It must not be in a queue, and settled if it failed.
func (c *Commit) Reset() {
	if c.isQueued() {
		panic("BUG: reset of a commit that is in the log's queue")
	}
	if c.state == stateDone && c.err != nil {
		panic("BUG: reset of a failed commit that is not settled")
	}
	if c.n > 0 {
		c.trim()
	}
	c.n, c.seq, c.sum, c.err, c.state, c.rotate = 0, 0, 0, nil, stateIdle, false
	c.expires, c.expiry = false, 0
}

// trim lets go of buffers that are too large for what they were used for.
func (c *Commit) trim() {
	large := false
	for i := range c.stored {
		c.stored[i].data = nil
		large = large || cap(c.stored[i].buf) > maxKeptBuffer
	}
	for i := range c.bodies {
		large = large || cap(c.bodies[i]) > maxKeptBuffer
	}
	if !large {
		return
	}
	used := func(i int) int {
		if i >= c.n {
			return 0
		}
		return len(c.bodies[i]) // to compress it takes as much, whatever comes out
	}
	for i := range c.stored {
		c.stored[i].buf = kept(c.stored[i].buf, used(i))
	}
	for i := range c.bodies {
		c.bodies[i] = kept(c.bodies[i], used(i))
	}
}

// Begin returns an empty buffer to append the next record's body to. End takes it. The
// first byte of a record must not be 0x80 to 0x84: those are the log's own.
//
//go:noinline
func (c *Commit) Begin() []byte {
	if c.n == len(c.bodies) {
		c.bodies = append(c.bodies, nil)
	}
	return c.bodies[c.n][:0]
}

// End says that rec, grown from what Begin returned, is a complete record. The
// commit owns it until Reset.
func (c *Commit) End(rec []byte) {
	c.bodies[c.n] = rec
	c.n++
}

// Expires says, before Write, that a checkpoint keeps nothing of this commit once
// CheckpointOptions.Expired holds of t. The log does not know what t means.
func (c *Commit) Expires(t int64) { c.expires, c.expiry = true, t }

// Seq returns the sequence number that Enqueue gave the commit.
func (c *Commit) Seq() uint64 { return c.seq }

// Records returns how many records the commit has.
func (c *Commit) Records() int { return c.n }

// encode compresses the bodies and sums them up.
func (c *Commit) encode(comp *compressor) {
	for len(c.stored) < c.n {
		c.stored = append(c.stored, storedRecord{})
	}
	for i, body := range c.bodies[:c.n] {
		if len(body) > MaxRecordSize {
			c.err = ErrRecordTooLarge
			return
		}
		if len(body) > 0 && isPrivateType(body[0]) {
			c.err = ErrReservedRecord
			return
		}
		s := &c.stored[i]
		c.sum = commitSum(c.sum, body)
		s.data, s.kind, s.buf = comp.compress(s.buf, body)
	}
}

// room is about what the commit takes in a segment, and not less: headers of fragments are less
// than a thousandth of long records.
func (c *Commit) room() int {
	size := 0
	for i := range c.stored[:c.n] {
		size += len(c.stored[i].data)
	}
	return size + size>>10 + 3*fragmentHeaderSize*(c.n+1) + maxFrameSize
}

// end returns where the commit ends in a segment when its records begin at off and
// its frame has frameSize bytes.
func (c *Commit) end(off int64, frameSize int) int64 {
	for i := range c.stored[:c.n] {
		off = recordEnd(off, len(c.stored[i].data))
	}
	return recordEnd(off, frameSize)
}

func (c *Commit) isQueued() bool { return c.state == stateQueued || c.state == stateReady }
