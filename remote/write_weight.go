package remote

import (
	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// weight is how much a request has. The database stages it in memory: one of 32 MiB has less than
// two million floats, unless somebody makes them as short as they can be.
type weight int

const (
	maxWeight      weight = 1 << 21
	weightFloat    weight = 1
	weightSeries   weight = 4
	weightOther    weight = 8  // a histogram, the metadata of a family
	weightExemplar weight = 64 // those of one series and one time are compared with each other
)

// What is taken of memory while a request is stored, in bytes, beside its content. A float among
// many of its series takes 100: 40 where it is staged, here and in the Appender, and 60 in the
// log's buffers and in the head. Series take theirs while they are new, which is not known before.
const (
	floatMemory     = 128
	seriesMemory    = 512 // and a byte for each of its labels, where those are not in the content
	histogramMemory = 512 // and bucketMemory for each byte of its message
	bucketMemory    = 8
	exemplarMemory  = 512
	familyMemory    = 64  // a place
	metadataMemory  = 128 // of a series, and twice its texts: where they are staged, and in the log

	// usualMemory is what is taken beforehand for a byte of content.
	usualMemory = 4
	// What comes on top is taken in steps: as much as there is, within these bounds.
	leastStep, mostStep = 8 << 10, 512 << 10
)

// load is what a request has.
type load struct {
	weight weight
	bytes  int64 // of memory that it needs
	taken  int64 // of it
	memory *memoryShare
}

// begin begins with a request that is expected to need so many bytes.
func (l *load) begin(memory *memoryShare, expected int64) error {
	*l = load{memory: memory}
	return l.take(expected)
}

// again begins anew, with the memory that was taken.
func (l *load) again() { l.weight, l.bytes = 0, 0 }

// add counts more. An error is about the whole request.
func (l *load) add(w weight, bytes int) error {
	l.weight += w
	l.bytes += int64(bytes)
	if l.weight <= maxWeight && l.bytes <= l.taken {
		return nil
	}
	return l.more()
}

// more takes more memory, if the request may have as much as it has.
func (l *load) more() error {
	if l.weight > maxWeight {
		return errors.WithMessagef(errLimit, "more than %d samples, of which a histogram counts as %d and an exemplar as %d: send less at a time",
			maxWeight, weightOther, weightExemplar)
	}
	return l.take(max(l.bytes-l.taken, min(max(l.taken, leastStep), mostStep)))
}

func (l *load) take(n int64) error {
	err := l.memory.take(n)
	if err == nil {
		l.taken += n
	}
	return err
}

// weigh goes through a message of remote write, without a look at what its items say, and counts
// what it has. Labels of 2.0 come on top. It returns how many samples there are. What is malformed
// is found when it is decoded.
func (l *load) weigh(content []byte, version writeVersion) (samples int) {
	family, series, histogram, exemplar := protowire.Number(3), protowire.Number(1), protowire.Number(4), protowire.Number(3)
	if version == writeV2 {
		family, series, histogram, exemplar = 0, 5, 3, 4
	}
	r := readFields(content)
	for r.next() {
		switch {
		case r.typ != protowire.BytesType:
		case r.num == family:
			l.weight += weightOther
			l.bytes += familyMemory
		case r.num == series:
			l.weight += weightSeries
			l.bytes += seriesMemory
			items := readFields(r.data)
			for items.next() {
				switch items.num {
				case 2:
					l.weight += weightFloat
					l.bytes += floatMemory
					samples++
				case histogram:
					l.weight += weightOther
					l.bytes += int64(histogramBytes(items.data))
					samples++
				case exemplar:
					l.weight += weightExemplar
					l.bytes += exemplarMemory
				}
			}
		}
	}
	return samples
}

// histogramBytes is the memory for a histogram of that message.
func histogramBytes(message []byte) int { return histogramMemory + bucketMemory*len(message) }
