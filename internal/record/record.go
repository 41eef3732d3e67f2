// Package record knows the payloads of the write-ahead log: what the bytes of one
// record say, once the log has taken it out of its frames and decompressed it. It
// opens no file and knows no order of records.
//
// Encoders append to the caller's buffer and decoders are cursors over the caller's
// bytes: neither allocates per entry, neither keeps the bytes. One goroutine per
// encoder or decoder; there is no shared state. Damage is an *encbuf.CorruptError
// whose offset counts from the start of the record. The format is in
// docs/format/wal-records.md.
package record

import "strconv"

// Type is the first byte of a record. Records of types without a decoder here, known
// by name or not, are kept and reported, never an error.
type Type uint8

// The record types of the log. Types from 0x80 on are private to this library: those to 0x84 belong
// to package wal, and late.go has the others.
const (
	TypeNone             Type = 0 // an empty record, or a type nobody writes
	TypeSeries           Type = 1
	TypeSamples          Type = 2
	TypeTombstones       Type = 3
	TypeExemplars        Type = 4
	TypeMmapMarkers      Type = 5
	TypeMetadata         Type = 6
	TypeHistograms       Type = 7
	TypeFloatHistograms  Type = 8
	TypeCustomHistograms Type = 9
	TypeCustomFloats     Type = 10
	TypeSamplesV2        Type = 11
	TypeHistogramsV2     Type = 12
	TypeFloatsV2         Type = 13
	TypeMinValidTime     Type = 14 // first record of a checkpoint, at most one
)

var typeNames = [...]string{
	TypeSeries:           "series",
	TypeSamples:          "samples",
	TypeTombstones:       "tombstones",
	TypeExemplars:        "exemplars",
	TypeMmapMarkers:      "m-map markers",
	TypeMetadata:         "metadata",
	TypeHistograms:       "histograms",
	TypeFloatHistograms:  "float histograms",
	TypeCustomHistograms: "custom-bucket histograms",
	TypeCustomFloats:     "custom-bucket float histograms",
	TypeSamplesV2:        "samples v2",
	TypeHistogramsV2:     "histograms v2",
	TypeFloatsV2:         "float histograms v2",
	TypeMinValidTime:     "min valid time",
}

// TypeOf returns the type of a record: TypeNone if it is empty, whatever its first
// byte is otherwise.
func TypeOf(rec []byte) Type {
	if len(rec) == 0 {
		return TypeNone
	}
	return Type(rec[0])
}

// Known tells whether the type has a name, so that its records mean something to
// some version of the log's readers.
func (t Type) Known() bool { return t != TypeNone && int(t) < len(typeNames) }

// HoldsSamples tells whether records of the type have samples of any kind, and so cannot
// be dropped when blocks take over without them.
func (t Type) HoldsSamples() bool {
	switch t {
	case TypeSamples, TypeSamplesV2, TypeHistograms, TypeFloatHistograms, TypeCustomHistograms, TypeCustomFloats, TypeHistogramsV2, TypeFloatsV2:
		return true
	case TypeLateCommit, TypeLateTombstones, TypeLateChunks, TypeLateDump, TypeLateReach:
		return false
	default:
		return !t.Known() && t != TypeNone
	}
}

// HoldsHistograms tells whether records of the type have native histograms.
func (t Type) HoldsHistograms() bool {
	return t != TypeSamples && t != TypeSamplesV2 && t.Known() && t.HoldsSamples()
}

// String returns the name that reports use.
func (t Type) String() string {
	switch t {
	case TypeLate:
		return "late samples"
	case TypeLateCommit:
		return "commit of late samples"
	case TypeLateTombstones:
		return "tombstones of late samples"
	case TypeLateChunks:
		return "chunks of late samples"
	case TypeLateDump:
		return "dump of late samples"
	case TypeLateReach:
		return "reach of late samples"
	}
	if t.Known() {
		return typeNames[t]
	}
	return "unknown type " + strconv.Itoa(int(t))
}
