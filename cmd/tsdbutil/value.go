package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// plainNaN are the bits of the NaN that is written as NaN alone. Of any other one the bits
// are written, too: one of them, 0x7ff0000000000002, marks the end of a series.
const plainNaN = 0x7ff8000000000001

// Text of a NaN with its bits, as in C: NaN(0x7ff0000000000002).
const (
	nanPrefix = "NaN(0x"
	nanSuffix = ")"
	nanDigits = 16
)

// appendSample writes the value of a sample so that parseValue reads the same bits.
func appendSample(dst []byte, v float64) []byte {
	bits := math.Float64bits(v)
	if !math.IsNaN(v) || bits == plainNaN {
		return appendFloat(dst, v)
	}
	dst = append(dst, nanPrefix...)
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[bits>>shift&0xf])
	}
	return append(dst, nanSuffix...)
}

// appendJSONSample is appendSample for JSON, which has no number for NaN and the infinities: they
// are strings.
func appendJSONSample(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(appendSample(append(dst, '"'), v), '"')
	}
	return appendFloat(dst, v)
}

// parseNaN reads a NaN with its bits; ok is false if a text is none.
func parseNaN(s string) (v float64, ok bool, err error) {
	if len(s) <= len(nanPrefix) || !strings.EqualFold(s[:len(nanPrefix)], nanPrefix) {
		return 0, false, nil
	}
	digits, closed := strings.CutSuffix(s[len(nanPrefix):], nanSuffix)
	bits, err := strconv.ParseUint(digits, 16, 64)
	if v = math.Float64frombits(bits); !closed || len(digits) > nanDigits || err != nil || !math.IsNaN(v) {
		return 0, true, errors.Errorf("the value is no NaN: %s", quoted(s))
	}
	return v, true, nil
}
