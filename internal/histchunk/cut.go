package histchunk

// Cut says when the open chunk of a series of histograms ends, by its size and by time. The
// zero value has no chunk. Another rule, which an Encoder knows, ends a chunk where its
// samples cannot be in one.
//
// A chunk never has samples from both sides of a multiple of the chunk range, unless it is
// smaller than minSamples and its own range goes on.
type Cut struct {
	start  int64 // time of the first sample
	nextAt int64 // a sample from this time on begins another chunk
	end    int64 // of the chunk range that the first sample is in
	judged bool  // nextAt was estimated from the size
}

// Sizes that chunks of histograms are cut by.
const (
	targetBytes = 1024            // what a chunk should have at its end
	judgeBytes  = targetBytes / 4 // size from which the end is estimated
	maxBytes    = targetBytes * 2 // size from which the next sample is cut off
	minSamples  = 10              // but a chunk has at least so many
)

// Begin notes that a chunk begins with a sample at time t. chunkRange is positive; times are
// milliseconds.
func (c *Cut) Begin(t, chunkRange int64) {
	end := t/chunkRange*chunkRange + chunkRange
	*c = Cut{start: t, nextAt: end, end: end}
}

// Due reports whether a sample at time t begins another chunk. The open one has that many
// samples and bytes, and its newest sample is at lastT.
func (c *Cut) Due(t, lastT int64, samples, sizeBytes int) bool {
	if !c.judged && sizeBytes >= judgeBytes {
		c.judged = true
		c.nextAt = spread(c.start, lastT, c.nextAt, targetBytes/float64(sizeBytes))
	}
	return (t >= c.nextAt || sizeBytes >= maxBytes) && (samples >= minSamples || t >= c.end)
}

// spread returns when to end a chunk that began at start and is filled by 1/times of what it
// should have at time now, so that the chunks up to end are about equally full.
func spread(start, now, end int64, times float64) int64 {
	chunks := float64(end-start) / (float64(now-start+1) * times)
	if chunks <= 1 {
		return end
	}
	return int64(float64(start) + float64(end-start)/float64(int64(chunks)))
}
