package remote

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// setOf reads a body without a connection.
func setOf(body []byte, contentType string, opts *ReadClientOptions) *SeriesSet {
	ctx, cancel := context.WithCancelCause(context.Background())
	b := newAnswerBody(ctx, cancel, time.Hour)
	b.res = &http.Response{Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Header: http.Header{"Content-Type": {contentType}}}
	set := &SeriesSet{body: b, mint: -1 << 62, maxt: 1 << 62}
	var err error
	if set.source, err = newSource(b, opts); err != nil {
		set.fail(err)
	}
	return set
}

// Whatever is answered: no panic, no endless loop, times that rise, an error with a name.
func FuzzAnswer(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Body != nil {
			for body := unhex(f, *v.Body); len(body) > 0; {
				var data []byte
				data, body = cutFrame(f, body)
				f.Add(data, true)
			}
		} else if v.Response != "" {
			f.Add(unhex(f, v.Response), false)
		}
	}
	any := ReadHandler(anyDB(f, rand.New(rand.NewPCG(1, 1)).Int64N, 6), nil)
	for _, body := range [][]byte{
		post(ReadHandler(openXOR2(f), nil), allOf(typeChunks, "second")).Body.Bytes(),
		post(any, allOf(typeChunks, "any")).Body.Bytes(),
	} {
		for len(body) > 0 {
			var data []byte
			data, body = cutFrame(f, body)
			f.Add(data, true)
		}
	}
	sampled, err := snappy.Decode(nil, post(any, allOf(typeSamples, "any")).Body.Bytes())
	require.NoError(f, err)
	f.Add(sampled, false)
	opts, err := (&ReadClientOptions{MaxFrameBytes: mib, MaxBufferBytes: mib}).withDefaults()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte, streamed bool) {
		contentType := samplesContentType
		if streamed {
			contentType = chunksContentType
			// The checksum is right, or nothing else would be looked at.
			body = framed(body)
		} else {
			body = snappy.Encode(nil, body)
		}
		set := setOf(body, contentType, opts)
		var it chunkenc.Iterator
		series, samples := 0, 0
		for s, err := range set.All() {
			if err != nil {
				break
			}
			series++
			require.NoError(t, s.Labels().Validate())
			if series%3 == 2 {
				continue // skipped
			}
			it = s.Iterator(it)
			for last := int64(-1 << 63); ; samples++ {
				kind := it.Next()
				if kind == chunkenc.ValNone {
					break
				}
				require.Greater(t, it.AtT(), last)
				last = sampleAt(it, kind).t
			}
			require.True(t, it.Err() == nil || isAny(it.Err(), ErrAnswer, tsdb.ErrUnsupported, tsdb.ErrLimit), it.Err())
		}
		require.True(t, set.Err() == nil || isAny(set.Err(), ErrAnswer, tsdb.ErrLimit), set.Err())
		require.LessOrEqual(t, series, len(body))
	})
}
