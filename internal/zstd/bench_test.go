package zstd

import (
	"fmt"
	"testing"

	reference "github.com/klauspost/compress/zstd"
)

// BenchmarkDecode decodes log records as a log has them, beside the reference.
func BenchmarkDecode(b *testing.B) {
	content := records(b)
	for _, size := range []int{500, 8 << 10, 128 << 10} {
		// Samples, without the series before them.
		batch := content[:size]
		if size < len(content)/2 {
			batch = content[len(content)-size:]
		}
		frame := encode(b, batch, reference.WithEncoderLevel(reference.SpeedFastest), reference.WithEncoderCRC(false))
		dst := make([]byte, 0, size)
		b.Run(fmt.Sprintf("size=%d/by=ours", size), func(b *testing.B) {
			d := NewDecoder()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(dst, frame, size); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("size=%d/by=klauspost", size), func(b *testing.B) {
			ref := newReference(b)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ref.DecodeAll(frame, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
