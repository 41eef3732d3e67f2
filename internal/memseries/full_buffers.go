package memseries

// fullBufferSizes are the capacities of buffers for full chunks, in bytes.
var fullBufferSizes = [...]int{128, 256, 384, 512, 768, chunkCap}

// maxSpareBytes is how much of unused buffers a Restorer keeps. Its chunks are on their way
// to a file a few hundred KiB at a time.
const maxSpareBytes = 1 << 20

// fullBuffers hands out buffers for full chunks of recovery and takes them back when the
// chunks are written.
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
