package memseries

import "unsafe"

// fullBufferSizes are the capacities of buffers for full chunks, in bytes.
var fullBufferSizes = [...]int{128, 256, 384, 512, 768, chunkCap}

// maxSpareBytes is how much of unused buffers an appender keeps: what a shard of a
// head with 10,000 series cuts at once. All shards together keep 4 MiB.
const maxSpareBytes = 64 << 10

// fullBuffers hands out buffers for full chunks and takes them back when the chunks
// are written.
type fullBuffers struct {
	spare [len(fullBufferSizes)][][]byte
	bytes int64 // of spare
}

// get returns an empty buffer for n bytes, at most chunkCap.
func (f *fullBuffers) get(n int) []byte {
	class := 0
	for fullBufferSizes[class] < n {
		class++
	}
	if l := len(f.spare[class]); l > 0 {
		b := f.spare[class][l-1]
		f.spare[class] = f.spare[class][:l-1]
		f.bytes -= int64(cap(b))
		return b
	}
	return make([]byte, 0, fullBufferSizes[class])
}

// getAny is get for any size. Samples that are encoded anew, without those before them,
// may take more room than they did.
func (f *fullBuffers) getAny(n int) []byte {
	if n > chunkCap {
		return make([]byte, 0, n)
	}
	return f.get(n)
}

// put takes a buffer back.
func (f *fullBuffers) put(b []byte) {
	if f.bytes+int64(cap(b)) > maxSpareBytes {
		return
	}
	for class, size := range fullBufferSizes {
		if cap(b) == size {
			f.spare[class] = append(f.spare[class], b[:0])
			f.bytes += int64(cap(b))
		}
	}
}

func (f *fullBuffers) sizeBytes() int64 {
	n := f.bytes
	for _, spare := range f.spare {
		n += int64(cap(spare)) * int64(unsafe.Sizeof([]byte(nil)))
	}
	return n
}
