package tsdb_test

import (
	"encoding/binary"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// oddChunk is a chunk of a block that a test writes byte by byte, as no writer here would.
type oddChunk struct {
	samples []point
	encoded *blockdir.Chunk // nil: the samples are floats
	ref     uint64
}

func (c *oddChunk) mint() int64 { return c.samples[0].T }
func (c *oddChunk) maxt() int64 { return c.samples[len(c.samples)-1].T }

// oddSeries is one entry of such a block: labels and chunks stand there as they are given. One
// chunk may be listed twice.
type oddSeries struct {
	labels [][2]string
	chunks []*oddChunk
}

// oddBlock is a block that may break any rule of order.
type oddBlock struct {
	id         ulid.ULID
	mint, maxt int64 // half-open, as the meta file says
	series     []oddSeries
	listTwice  bool // lists of a label that a series has twice name it twice, as old writers did
}

// write puts the block into a data directory.
func (b *oddBlock) write(fs interface {
	WriteFile(name string, data []byte) error
}, dir string) error {
	block := blockdir.Path(dir, b.id)
	meta := blockdir.Meta{ULID: b.id, MinTime: b.mint, MaxTime: b.maxt, Version: 1,
		Compaction: blockdir.Compaction{Level: 1, Sources: []ulid.ULID{b.id}}}
	meta.Stats.NumSeries = uint64(len(b.series))
	for _, s := range b.series {
		meta.Stats.NumChunks += uint64(len(s.chunks))
		for _, c := range s.chunks {
			meta.Stats.NumSamples += uint64(len(c.samples))
		}
	}
	text, err := blockdir.EncodeMeta(meta)
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"chunks/000001", b.segment()}, // which gives chunks their refs
		{"index", b.index()},
		{"meta.json", text},
		{"tombstones", tombstones.Encode(&tombstones.Set{})},
	} {
		if err == nil {
			err = fs.WriteFile(path.Join(block, f.name), f.data)
		}
	}
	return err
}

// segment encodes the chunks and gives them their refs.
func (b *oddBlock) segment() []byte {
	out := []byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0}
	for _, s := range b.series {
		for _, c := range s.chunks {
			if c.ref > 0 {
				continue
			}
			enc, data := c.encode()
			c.ref = uint64(len(out))
			out = binary.AppendUvarint(out, uint64(len(data)))
			body := append([]byte{byte(enc)}, data...)
			out = encbuf.AppendBE32(append(out, body...), encbuf.Checksum(body))
		}
	}
	return out
}

func (c *oddChunk) encode() (chunkenc.Encoding, []byte) {
	if c.encoded != nil {
		return c.encoded.Encoding, c.encoded.Data
	}
	var enc xorchunk.Encoder
	for _, p := range c.samples {
		if err := enc.Append(p.T, math.Float64frombits(p.V)); err != nil {
			panic(err)
		}
	}
	return chunkenc.EncXOR, enc.AppendTo(nil)
}

// section appends the length of a section, the section and its checksum.
func section(out, body []byte) []byte {
	out = append(encbuf.AppendBE32(out, uint32(len(body))), body...)
	return encbuf.AppendBE32(out, encbuf.Checksum(body))
}

func (b *oddBlock) index() []byte {
	numbers := map[string]uint64{}
	for _, s := range b.series {
		for _, l := range s.labels {
			numbers[l[0]], numbers[l[1]] = 0, 0
		}
	}
	body := encbuf.AppendBE32(nil, uint32(len(numbers)))
	for i, sym := range slices.Sorted(maps.Keys(numbers)) {
		numbers[sym] = uint64(i)
		body = append(binary.AppendUvarint(body, uint64(len(sym))), sym...)
	}
	out := section([]byte{0xBA, 0xAA, 0xD7, 0x00, 2}, body)
	toc := []int{5, len(out), 0, 0, 0, 0}
	lists := map[[2]string][]uint32{}
	for _, s := range b.series {
		for len(out)%16 != 0 {
			out = append(out, 0)
		}
		id := uint32(len(out) / 16)
		lists[[2]string{}] = append(lists[[2]string{}], id)
		for i, l := range s.labels {
			if b.listTwice || !slices.Contains(s.labels[:i], l) {
				lists[l] = append(lists[l], id)
			}
		}
		body := s.entry(numbers)
		out = append(binary.AppendUvarint(out, uint64(len(body))), body...)
		out = encbuf.AppendBE32(out, encbuf.Checksum(body))
	}
	toc[2], toc[4] = len(out), len(out)
	pairs := slices.SortedFunc(maps.Keys(lists), func(x, y [2]string) int {
		return slices.CompareFunc(x[:], y[:], strings.Compare)
	})
	table := encbuf.AppendBE32(nil, uint32(len(pairs)))
	for _, p := range pairs {
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
		table = append(table, 2)
		for _, text := range p {
			table = append(binary.AppendUvarint(table, uint64(len(text))), text...)
		}
		table = binary.AppendUvarint(table, uint64(len(out)))
		list := encbuf.AppendBE32(nil, uint32(len(lists[p])))
		for _, id := range lists[p] {
			list = encbuf.AppendBE32(list, id)
		}
		out = section(out, list)
	}
	toc[3], toc[5] = len(out), len(out)
	out = section(out, table)
	var end []byte
	for _, off := range toc {
		end = binary.BigEndian.AppendUint64(end, uint64(off))
	}
	return encbuf.AppendBE32(append(out, end...), encbuf.Checksum(end))
}

// entry encodes a series entry. Distances between times may be negative, as they wrap around.
func (s *oddSeries) entry(numbers map[string]uint64) []byte {
	body := binary.AppendUvarint(nil, uint64(len(s.labels)))
	for _, l := range s.labels {
		body = binary.AppendUvarint(binary.AppendUvarint(body, numbers[l[0]]), numbers[l[1]])
	}
	body = binary.AppendUvarint(body, uint64(len(s.chunks)))
	for i, c := range s.chunks {
		if i == 0 {
			body = binary.AppendVarint(body, c.mint())
			body = binary.AppendUvarint(body, uint64(c.maxt()-c.mint()))
			body = binary.AppendUvarint(body, c.ref)
			continue
		}
		before := s.chunks[i-1]
		body = binary.AppendUvarint(body, uint64(c.mint()-before.maxt()))
		body = binary.AppendUvarint(body, uint64(c.maxt()-c.mint()))
		body = binary.AppendVarint(body, int64(c.ref-before.ref))
	}
	return body
}
