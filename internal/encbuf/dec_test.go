package encbuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDec_ReadsWhatWasAppended(t *testing.T) {
	ints := []int64{0, 1, -1, 63, 64, -64, -65, 1 << 40, math.MaxInt64, math.MinInt64}
	var b []byte
	for _, v := range ints {
		b = AppendVarint(b, v)
		b = AppendUvarint(b, uint64(v))
		b = AppendBE32(b, uint32(v))
		b = AppendBE64(b, uint64(v))
		b = AppendString(b, "né")
	}
	d := NewDec(b)
	for _, v := range ints {
		require.Equal(t, v, d.Varint())
		require.Equal(t, uint64(v), d.Uvarint())
		require.Equal(t, uint32(v), d.BE32())
		require.Equal(t, uint64(v), d.BE64())
		require.Equal(t, "né", string(d.Str()))
	}
	require.NoError(t, d.Err())
	require.Zero(t, d.Len())
	require.Equal(t, len(b), d.Offset())
}

func TestAppendVarint_EqualsTheStandardForm(t *testing.T) {
	for shift := range 64 {
		for _, v := range []int64{1<<shift - 1, 1 << shift, -(1 << shift)} {
			require.Equal(t, binary.AppendVarint(nil, v), AppendVarint(nil, v))
			require.Equal(t, binary.AppendUvarint(nil, uint64(v)), AppendUvarint(nil, uint64(v)))
		}
	}
}

func TestDec_KeepsTheFirstErrorAndItsOffset(t *testing.T) {
	d := NewDec([]byte{7, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	require.EqualValues(t, 7, d.Byte())
	require.Equal(t, []byte{7}, d.Since(0))
	d.Bytes(99)
	require.Zero(t, d.BE64(), "a failed cursor reads nothing more")
	require.Zero(t, d.Uvarint())
	require.Zero(t, d.Byte())
	require.Empty(t, d.Str())
	require.Zero(t, d.Len())
	d.FailAt(5, "later")

	require.ErrorIs(t, d.Err(), ErrCorrupt)
	var ce *CorruptError
	require.True(t, errors.As(d.Err(), &ce))
	require.EqualValues(t, 1, ce.Offset)
	require.Equal(t, "length exceeds the input", ce.Reason)
}

func TestDec_ShortOrOverlongInputIsDamage(t *testing.T) {
	overflow := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}
	for name, c := range map[string]struct {
		in   []byte
		read func(*Dec)
	}{
		"byte":     {nil, func(d *Dec) { d.Byte() }},
		"be32":     {make([]byte, 3), func(d *Dec) { d.BE32() }},
		"be64":     {make([]byte, 7), func(d *Dec) { d.BE64() }},
		"float":    {make([]byte, 7), func(d *Dec) { d.Float64() }},
		"uvarint":  {[]byte{0x80}, func(d *Dec) { d.Uvarint() }},
		"overflow": {overflow, func(d *Dec) { d.Uvarint() }},
		"varint":   {nil, func(d *Dec) { d.Varint() }},
		"negative": {make([]byte, 9), func(d *Dec) { d.Bytes(-1) }},
		"string":   {[]byte{3, 'a', 'b'}, func(d *Dec) { _ = d.Str() }},
		"count":    {[]byte{3, 0, 0, 0, 0, 0}, func(d *Dec) { d.Count(2) }},
		"huge":     {binary.AppendUvarint(nil, math.MaxUint64), func(d *Dec) { d.Count(1) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDec(c.in)
			c.read(&d)
			require.ErrorIs(t, d.Err(), ErrCorrupt)
		})
	}
}

func TestDec_AcceptsLongerFormsOfSmallNumbers(t *testing.T) {
	d := NewDec([]byte{0x85, 0x80, 0x00})
	require.EqualValues(t, 5, d.Uvarint())
	require.NoError(t, d.Err())
}

func TestChecksum_IsCastagnoli(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), Checksum([]byte("123456789")))
	require.Equal(t, uint32(0xe3069283), UpdateChecksum(Checksum([]byte("1234")), []byte("56789")))
}

func TestDec_AllocatesNothing(t *testing.T) {
	b := AppendString(AppendUvarint(nil, 1<<30), "value")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d := NewDec(b)
		d.Uvarint()
		_ = d.Str()
	}))
}

// Lists are read as their numbers one by one are, whole or cut, also where a varint is too long.
func TestDec_ListsOfVarintsAreThoseOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		list := make([]int64, r.IntN(40))
		for i := range list {
			list[i] = int64(r.Uint64()) >> r.IntN(64)
			if r.IntN(3) > 0 {
				list[i] >>= 50
			}
		}
		var b []byte
		for _, v := range list {
			b = AppendVarint(b, v)
		}
		require.Equal(t, append([]byte{9}, b...), AppendVarints([]byte{9}, list))
		switch r.IntN(4) {
		case 0:
			b = b[:r.IntN(len(b)+1)]
		case 1:
			at := r.IntN(len(b) + 1)
			b = slices.Concat(b[:at:at], slices.Repeat([]byte{0x80}, r.IntN(14)), b[at:])
		}
		one, many, skipped := NewDec(b), NewDec(b), NewDec(b)
		var each []int64
		for range list {
			each = append(each, one.Varint())
		}
		got := many.Varints([]int64{7}, len(list))
		require.EqualValues(t, 7, got[0])
		require.Equal(t, fmt.Sprint(each), fmt.Sprint(got[1:]))
		require.Equal(t, one.Offset(), many.Offset())
		require.Equal(t, one.Err(), many.Err())
		sum, negative := skipped.SkipDeltas(len(list))
		wantSum, number, below := uint64(0), int64(0), false
		for _, d := range each {
			number += d
			wantSum += uint64(number)
			below = below || number < 0
		}
		require.Equal(t, []any{wantSum, below}, []any{sum, negative})
		require.Equal(t, one.Offset(), skipped.Offset())
		require.Equal(t, one.Err(), skipped.Err())
	}
}

func TestAllZero_SeesEveryByte(t *testing.T) {
	for n := range 20 {
		b := make([]byte, n)
		require.True(t, AllZero(b))
		for i := range b {
			b[i] = 1
			require.False(t, AllZero(b), "byte %d of %d", i, n)
			b[i] = 0
		}
	}
}
