package remote

import (
	"strconv"

	"github.com/pkg/errors"
)

// responseType is a form that an answer can have; the numbers are part of the protocol.
type responseType int32

const (
	typeSamples responseType = 0 // one message with every sample, as a snappy block
	typeChunks  responseType = 1 // frames with encoded chunks, as they come
)

// String returns the name that the protocol has for it, or its number.
func (t responseType) String() string {
	switch t {
	case typeSamples:
		return "SAMPLES"
	case typeChunks:
		return "STREAMED_XOR_CHUNKS"
	default:
		return "response type " + strconv.Itoa(int(t))
	}
}

// Headers of the answers. Clients compare prefixes of the types, blank included.
const (
	samplesContentType = "application/x-protobuf"
	chunksContentType  = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
	snappyEncoding     = "snappy"
)

// negotiate returns the first accepted type that is known. A client that names none is
// from before there was a choice.
func negotiate(accepted []responseType) (responseType, error) {
	if len(accepted) == 0 {
		return typeSamples, nil
	}
	for _, t := range accepted {
		if t == typeSamples || t == typeChunks {
			return t, nil
		}
	}
	return 0, errors.WithMessagef(errNoType, "%v", accepted)
}
