package remote

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestRequest_EveryFieldComesBack(t *testing.T) {
	want := readRequest{
		queries: []query{
			{},
			{start: math.MinInt64, end: math.MaxInt64, hints: &hints{}},
			{
				start: -1, end: 1,
				matchers: []matcher{{}, {typ: 3, name: "a\x00\xff", value: "b"}, {typ: -1, name: "", value: "c"}},
				hints:    &hints{step: -1, function: "rate", start: 1, end: -1, grouping: []string{"", "a", ""}, by: true, window: 5},
			},
		},
		accepted: []responseType{typeChunks, typeSamples, 7},
	}
	got, err := decodeReadRequest(appendReadRequest(nil, &want))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestRequest_FieldsOfALaterVersionAreSkipped(t *testing.T) {
	later := protowire.AppendFixed32(protowire.AppendTag(nil, 90, protowire.Fixed32Type), 1)
	later = protowire.AppendFixed64(protowire.AppendTag(later, 91, protowire.Fixed64Type), 1)
	later = protowire.AppendVarint(protowire.AppendTag(later, 92, protowire.VarintType), math.MaxUint64)
	later = protowire.AppendBytes(protowire.AppendTag(later, 93, protowire.BytesType), []byte("x"))
	later = protowire.AppendTag(protowire.AppendTag(later, 94, protowire.StartGroupType), 94, protowire.EndGroupType)
	within := func(field protowire.Number, content []byte) []byte {
		return append(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), content), later...)
	}
	m := append(appendString(later, 2, "job"), later...)
	got, err := decodeReadRequest(append(later, within(1, append(within(3, m), within(4, later)...))...))
	require.NoError(t, err)
	require.Equal(t, readRequest{queries: []query{{matchers: []matcher{{name: "job"}}, hints: &hints{}}}}, got)
}

func TestRequest_AcceptedTypesMayBePackedOrNot(t *testing.T) {
	for _, b := range [][]byte{{0x12, 2, 1, 0}, {0x10, 1, 0x10, 0}, {0x12, 1, 1, 0x10, 0}, {0x12, 0, 0x10, 1, 0x12, 1, 0}} {
		req, err := decodeReadRequest(b)
		require.NoError(t, err)
		require.Equal(t, []responseType{typeChunks, typeSamples}, req.accepted)
	}
}

func TestRequest_MessagesInPiecesAreMerged(t *testing.T) {
	first := appendMessage(nil, 4, func(b []byte) []byte { return appendInt(appendInt(b, 1, 5), 3, 7) })
	second := appendMessage(nil, 4, func(b []byte) []byte { return appendInt(b, 3, 8) })
	q, err := decodeQuery(append(first, second...))
	require.NoError(t, err)
	require.Equal(t, &hints{step: 5, start: 8}, q.hints)
}

func TestNegotiation_FirstKnownTypeWins(t *testing.T) {
	for _, test := range []struct {
		accepted []responseType
		want     responseType
		err      error
	}{
		{nil, typeSamples, nil},
		{[]responseType{typeSamples, typeChunks}, typeSamples, nil},
		{[]responseType{typeChunks, typeSamples}, typeChunks, nil},
		{[]responseType{7, -1, typeChunks}, typeChunks, nil},
		{[]responseType{2}, 0, errNoType},
	} {
		got, err := negotiate(test.accepted)
		require.ErrorIs(t, err, test.err)
		require.Equal(t, test.want, got)
	}
}

// FuzzDecodeRequest sends its input to a handler, and encodes what it can decode.
func FuzzDecodeRequest(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(unhex(f, v.Request))
	}
	for _, request := range hostile() {
		if len(request) < 10_000 {
			f.Add(request)
		}
	}
	h := ReadHandler(openVectorDB(f), nil)
	f.Fuzz(func(t *testing.T, request []byte) {
		req, err := decodeReadRequest(request)
		if err == nil {
			again, err := decodeReadRequest(appendReadRequest(nil, &req))
			require.NoError(t, err)
			require.Equal(t, req, again)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(request)))
		if err != nil {
			require.Equal(t, http.StatusBadRequest, w.Code)
		} else if w.Code == http.StatusOK && w.Header().Get("Content-Type") == samplesContentType {
			response, err := snappy.Decode(nil, w.Body.Bytes())
			require.NoError(t, err)
			require.Len(t, decodeResults(t, response), len(req.queries))
		} else if w.Code == http.StatusOK {
			samplesOfFrames(t, w.Body.Bytes(), 0)
		} else {
			require.Equal(t, http.StatusBadRequest, w.Code)
		}
	})
}
