package xorchunk

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// plainReader reads bits one by one; behind data they are zeros.
type plainReader struct {
	data []byte
	bit  int
}

func (r *plainReader) read(n int) (x uint64) {
	for range n {
		x <<= 1
		if at := r.bit / 8; at < len(r.data) {
			x |= uint64(r.data[at]) >> (7 - r.bit%8) & 1
		}
		r.bit++
	}
	return x
}

// plainDods are the lengths of changes of the distance behind so many ones.
var plainDods = [...]int{0, 14, 17, 20, 64}

// dod reads a time code. filled is the place from which on an error counts its bytes.
func (r *plainReader) dod() (dod uint64, filled int) {
	filled = r.bit
	ones := 0
	for ones < 4 && r.read(1) == 1 {
		ones++
	}
	size := plainDods[ones]
	dod = r.read(size)
	if size == 64 {
		return dod, r.bit
	}
	if dod > 1<<size>>1 {
		dod -= 1 << size
	}
	return dod, filled
}

// decodePlain decodes as the format is described, without any haste: Decoder gives the same
// samples and the same error for whatever bytes.
func decodePlain(data []byte) (out []sample, err error) {
	if err := new(Decoder).Reset(data); err != nil {
		return nil, err
	}
	num := int(binary.BigEndian.Uint16(data))
	if num == 0 {
		return nil, nil
	}
	t, n := binary.Varint(data[headerSize:])
	r := plainReader{data, (headerSize + n) * 8}
	v := r.read(64)
	out = append(out, sample{t, v})
	var delta uint64
	sig, trailing := 64, 0
	for k := 1; k < num; k++ {
		filled := 0
		if k == 1 {
			d, n := binary.Uvarint(data[r.bit/8:])
			delta = d
			r.bit += n * 8
			filled = r.bit - 1
		} else {
			var dod uint64
			dod, filled = r.dod()
			delta += dod
		}
		if r.read(1) == 1 {
			if r.read(1) == 1 {
				lead := int(r.read(5))
				if sig = int(r.read(6)); sig == 0 {
					sig = 64
				}
				if trailing = 64 - lead - sig; trailing < 0 {
					return out, encbuf.Corrupt(min((filled+63)/8, len(data)),
						"XOR chunk: value window of more than 64 bits before this place")
				}
			}
			v ^= r.read(sig) << trailing
		}
		if r.bit > len(data)*8 {
			return out, encbuf.Corrupt(len(data), "XOR chunk ends inside a sample")
		}
		t += int64(delta)
		out = append(out, sample{t, v})
	}
	return out, nil
}

// requirePlain checks the decoder against decodePlain, in runs of some lengths, and returns the
// error of both.
func requirePlain(t *testing.T, data []byte, runs ...int) error {
	t.Helper()
	want, wantErr := decodePlain(data)
	for _, run := range runs {
		got, err := decode(data, run)
		if !slices.Equal(want, got) {
			require.Equal(t, want, got, "runs of %d of %x", run, data)
		}
		if wantErr != nil || err != nil {
			require.Equal(t, wantErr, err, "runs of %d of %x", run, data)
		}
	}
	return wantErr
}

// plainRuns are lengths of runs: a sample at a time, some of them, and all.
var plainRuns = []int{1, 2, 3, 29, 256, 5000}

// plainShapes are chunks of every shape: those of the benchmarks, the same with scrapes that are
// late or lost and values that stay for a while, few of the same, and samples of anything at all.
func plainShapes() map[string][]sample {
	r := rand.New(rand.NewPCG(5, 6))
	shapes := map[string][]sample{}
	for _, s := range benchSeries {
		shapes[s.name] = s.make(120)
		broken := s.make(240)
		for i := range broken {
			broken[i].t += int64(i / 17 * 15_000)
			if i%31 == 0 {
				broken[i].t += 5
			}
			if i%40 > 10 {
				broken[i].v = broken[i/40*40].v
			}
		}
		shapes[s.name+", broken"] = broken
	}
	for n := range 60 {
		shapes[fmt.Sprintf("the same %d times", n+1)] = series(n+1, 0, func(int, *rand.Rand) float64 { return 1 })
	}
	for k := range 40 {
		shapes[fmt.Sprintf("anything %d", k)] = nil
		for _, s := range anyRun(r, 1+r.IntN(200)) {
			name := fmt.Sprintf("anything %d", k)
			shapes[name] = append(shapes[name], sample{s.T, math.Float64bits(s.V)})
		}
	}
	return shapes
}

func TestXORDecoder_AnyShape_IsWhatBitsOneByOneGive(t *testing.T) {
	for name, samples := range plainShapes() {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, requirePlain(t, encode(t, samples), plainRuns...))
		})
	}
}

// Of a chunk that was cut, or that says it has more samples than it has, the same samples are left,
// and the same is said of the others.
func TestXORDecoder_AnyShapeCut_IsWhatBitsOneByOneGive(t *testing.T) {
	for name, samples := range plainShapes() {
		data := encode(t, samples)
		for n := 0; n < len(data); n += 1 + len(data)/100 {
			require.Error(t, requirePlain(t, data[:n], 1, 256), "%s, %d bytes of %d", name, n, len(data))
		}
		for more := range 8 {
			binary.BigEndian.PutUint16(data, uint16(len(samples)+more))
			_ = requirePlain(t, data, 1, 3, 5000)
			_ = requirePlain(t, append(data, make([]byte, more)...), 1, 3, 5000)
		}
	}
}

func TestXORDecoder_AnyShapeDamaged_IsWhatBitsOneByOneGive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	errs := 0
	for _, samples := range plainShapes() {
		data := encode(t, samples)
		for range 100 {
			bad := slices.Clone(data)
			for range 1 + r.IntN(3) {
				bit := r.IntN(len(bad) * 8)
				bad[bit/8] ^= 0x80 >> (bit % 8)
			}
			if requirePlain(t, bad, 1, 7, 256) != nil {
				errs++
			}
		}
	}
	require.Greater(t, errs, 1000)
}

// plainWriter writes codes bit by bit.
type plainWriter struct {
	data []byte
	free int // bits of the last byte
}

func (w *plainWriter) write(x uint64, n int) {
	for n--; n >= 0; n-- {
		if w.free == 0 {
			w.data, w.free = append(w.data, 0), 8
		}
		w.free--
		w.data[len(w.data)-1] |= byte(x>>n&1) << w.free
	}
}

// anyCodes writes samples in codes that are drawn, not chosen as an encoder would: each
// length of a window and of a distance, whether it is needed or not, and now and then, if
// damaged, a window that does not fit.
func anyCodes(r *rand.Rand, n int, damaged bool) []byte {
	w := plainWriter{data: binary.BigEndian.AppendUint16(nil, uint16(n))}
	w.data = binary.AppendVarint(w.data, r.Int64()>>r.IntN(64))
	w.data = binary.BigEndian.AppendUint64(w.data, r.Uint64())
	w.data = binary.AppendUvarint(w.data, r.Uint64()>>r.IntN(64))
	steps, changes := 1+r.IntN(50), 1+r.IntN(20) // how seldom something happens
	sig := 64
	for k := 1; k < n; k++ {
		switch size := 0; {
		case k == 1:
		case r.IntN(steps) > 0:
			w.write(0, 1)
		default:
			ones := 1 + r.IntN(4)
			size = plainDods[ones]
			w.write(0b1111<<(4-ones)&0b1111>>max(3-ones, 0), min(ones+1, 4))
			w.write(r.Uint64(), size)
		}
		switch {
		case r.IntN(changes) > 0 && changes > 10:
			w.write(0, 1)
			continue
		case r.IntN(changes) > 0:
			w.write(0b10, 2)
		default:
			lead := r.IntN(32)
			if sig = 1 + r.IntN(64-lead); damaged && r.IntN(50) == 0 {
				sig = 64
			}
			w.write(0b11, 2)
			w.write(uint64(lead), 5)
			w.write(uint64(sig), 6)
		}
		w.write(r.Uint64(), sig)
	}
	return w.data
}

func TestXORDecoder_AnyCodes_IsWhatBitsOneByOneGive(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	bad := 0
	for k := range 3000 {
		data := anyCodes(r, 2+r.IntN(150), k%2 == 1)
		if err := requirePlain(t, data, 1, 2, 1+r.IntN(150), 256); err != nil {
			require.Equal(t, 1, k%2)
			bad++
		}
		_ = requirePlain(t, data[:r.IntN(len(data))], 1, 256)
	}
	require.Greater(t, bad, 100)
}
