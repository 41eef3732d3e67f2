package tsdb_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Sequences of histograms: beside which samples there are, what is known of resets, and what chunks
// a query gives.

// hintPlayer plays a sequence, and compares hints and chunks, too.
type hintPlayer struct{ sequencePlayer }

// hintLines are what series have, as texts, by labels.
type hintLines map[string]string

func (p *hintPlayer) compare(step int, s *sequenceStep, between string, theirs, got hintLines) {
	for i := range p.seq.Series {
		key := p.labels(i).String()
		if a, b := differing(got[key], theirs[key], between); a != b {
			p.found = append(p.found, fmt.Sprintf("%s, step %d, %s of series %d: %s instead of %s", p.seq.Name, step, s.Do, i, a, b))
		}
	}
}

// differing leaves what two lists do not have in common.
func differing(a, b, between string) (string, string) {
	as, bs := strings.Split(a, between), strings.Split(b, between)
	only := func(list, others []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(list), func(x string) bool { return slices.Contains(others, x) }), between)
	}
	return only(as, bs), only(bs, as)
}

// samples are those of a result.
func (p *hintPlayer) samples(s *sequenceStep) hintLines {
	var result []struct {
		Labels  []string
		Samples []*mergeSample
	}
	require.NoError(p, json.Unmarshal(s.Result, &result))
	lines := hintLines{}
	for _, of := range result {
		var list []string
		for _, x := range of.Samples {
			if x == nil {
				list = append(list, "end")
				continue
			}
			list = append(list, sampleText(x.t, p.canonical(x.name), x.hint))
		}
		lines[labels.FromStrings(of.Labels...).String()] = strings.Join(list, " ")
	}
	return lines
}

// each reads all series.
func (p *hintPlayer) each(s *sequenceStep, read func(it chunkenc.Iterator) []string) hintLines {
	q, err := p.db.Querier(s.Mint, s.Maxt)
	require.NoError(p, err)
	defer func() { require.NoError(p, q.Close()) }()
	lines := hintLines{}
	for of, err := range q.Select(ctx, nil).All() {
		require.NoError(p, err)
		it := of.Iterator(nil)
		lines[of.Labels().String()] = strings.Join(read(it), " ")
		require.NoError(p, it.Err())
	}
	return lines
}

func (p *hintPlayer) text(s anySample) string { return sampleText(s.T, p.nameOf(&s), hintOf(&s)) }

func (p *hintPlayer) next(it chunkenc.Iterator) (list []string) {
	all := anyReaders["one by one"](it)
	requirePromises(p, all)
	for _, s := range all {
		list = append(list, p.text(s))
	}
	return list
}

// requirePromises requires that where nothing was reset nothing fell. What is said of the first
// sample of a range is about one in front of it.
func requirePromises(t testing.TB, all []anySample) {
	floats := func(s *anySample) *histogram.FloatHistogram {
		if s.H != nil {
			return s.H.ToFloat(nil)
		}
		return s.FH.Copy()
	}
	for i := range all {
		if i == 0 || hintOf(&all[i]) != histogram.HintNotReset {
			continue
		}
		require.Equal(t, all[i-1].kind(), all[i].kind())
		before, now := floats(&all[i-1]), floats(&all[i])
		now.Hint = histogram.HintUnknown
		require.False(t, now.DetectReset(before), "sample %d", i)
	}
}

// seek makes calls of one iterator.
func (p *hintPlayer) seek(calls []int64) func(it chunkenc.Iterator) []string {
	return func(it chunkenc.Iterator) (list []string) {
		for _, to := range calls {
			var kind chunkenc.ValueType
			if to == -1 {
				kind = it.Next()
			} else {
				kind = it.Seek(to)
			}
			if kind == chunkenc.ValNone {
				list = append(list, "end")
				continue
			}
			list = append(list, p.text(anyAt(it, kind)))
		}
		return list
	}
}

// sequenceChunk is a chunk that a query gives.
type sequenceChunk struct {
	Encoding     chunkenc.Encoding
	Header, Data string
	Mint, Maxt   int64
	Samples      int
}

func (c *sequenceChunk) text() string {
	from, to := (c.Mint-firstMinute)/minute, (c.Maxt-firstMinute)/minute
	return chunkText(c.Encoding, c.Header, fmt.Sprintf("%d..%d %d", from, to, c.Samples))
}

func (p *hintPlayer) chunks(step int, s *sequenceStep) {
	var result []struct {
		Labels []string
		Chunks []sequenceChunk
	}
	require.NoError(p, json.Unmarshal(s.Result, &result))
	theirs, bytes := hintLines{}, map[string][]sequenceChunk{}
	for _, of := range result {
		key := labels.FromStrings(of.Labels...).String()
		var list []string
		for _, c := range of.Chunks {
			list = append(list, c.text())
		}
		theirs[key], bytes[key] = strings.Join(list, ", "), of.Chunks
	}
	q, err := p.db.Querier(s.Mint, s.Maxt)
	require.NoError(p, err)
	defer func() { require.NoError(p, q.Close()) }()
	got := hintLines{}
	for of, err := range q.SelectChunks(ctx, nil).All() {
		require.NoError(p, err)
		key, list := of.Labels().String(), []string{}
		it := of.Chunks(nil)
		for i := 0; it.Next(); i++ {
			c := it.At()
			data := c.Chunk.Bytes()
			list = append(list, (&sequenceChunk{c.Chunk.Encoding(), headerText(p, c.Chunk.Encoding(), data), "", c.MinT, c.MaxT, c.Chunk.NumSamples()}).text())
			if i < len(bytes[key]) && bytes[key][i].Data != "" && bytes[key][i].text() == list[i] {
				require.Equal(p, bytes[key][i].Data, hex.EncodeToString(data), "%s, step %d, chunk %d", p.seq.Name, step, i)
			}
		}
		require.NoError(p, it.Err())
		got[key] = strings.Join(list, ", ")
	}
	p.compare(step, s, ", ", theirs, got)
}

// look compares what one step says with what the database does.
func (p *hintPlayer) look(step int, s *sequenceStep) {
	switch s.Do {
	case "query":
		p.compare(step, s, " ", p.samples(s), p.each(s, p.next))
	case "seek":
		p.compare(step, s, " ", p.samples(s), p.each(s, p.seek(s.Calls)))
	case "chunk_query":
		p.chunks(step, s)
	}
}

// hintDifferences are where the database does something else, by reason.
var hintDifferences = map[string][]string{
	"what overlaps is encoded again, and compared with the sample in front of it: more is promised, and it holds": {
		"overlap-with-late-samples, step 2, query of series 0: 10:h48N 15:h50N 20:h18N instead of 10:h48U 15:h50U 20:h18U",
		"overlap-with-late-samples, step 4, seek of series 0: 15:h50N 20:h18N instead of 15:h50U 20:h18U",
		"overlap-with-late-samples, step 6, query of series 0: 10:h48N 15:h50N 20:h18N instead of 10:h48U 15:h50U 20:h18U",
	},
	"a chunk of a query ends where the overlap begins and ends": {
		"gauge-overlap, step 3, chunk_query of series 0: 2 gauge 10..10 1, 2 gauge 15..15 1 instead of 2 gauge 10..15 2",
		"overlap-with-late-samples, step 3, chunk_query of series 0: 2 reset 25..25 1, 2 unknown 30..30 1 instead of 2 reset 25..30 2",
		"overlap-with-late-samples, step 7, chunk_query of series 0: 2 reset 25..25 1, 2 unknown 30..30 1 instead of 2 reset 25..30 2",
	},
	"another value where the head has that time is refused, in order or late, in memory or in files": {
		"overlap-of-kinds, step 1, sample 3: duplicate_sample instead of taken",
		"overlap-of-kinds, step 1, sample 4: duplicate_sample instead of taken",
		"overlap-of-kinds, step 2, query of series 0: 10:h48U instead of 10:4024000000000000U",
		"overlap-of-kinds, step 2, query of series 1: 10:3ff0000000000000U instead of 10:h44U",
		"overlap-of-kinds, step 3, chunk_query of series 0: 2 unknown 10..10 1, 1 15..15 1 instead of 1 10..15 2",
		"overlap-of-kinds, step 3, chunk_query of series 1: 1 10..10 1, 2 unknown 15..15 1 instead of 2 unknown 10..15 2",
		"overlap-of-kinds, step 6, query of series 0: 10:h48U instead of 10:4024000000000000U",
		"overlap-of-kinds, step 6, query of series 1: 10:3ff0000000000000U 15:h44U instead of 10:h44U 15:h44N",
		"overlap-of-kinds, step 7, chunk_query of series 0: 2 unknown 10..10 1, 1 15..15 1 instead of 1 10..15 2",
		"overlap-of-kinds, step 7, chunk_query of series 1: 1 10..10 1, 2 unknown 15..15 1 instead of 2 unknown 10..15 2",
	},
	"a histogram that says the same is a repeat, whatever buckets its chunk has added to it": {
		"duplicates-of-widened-samples, step 2, sample 0: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 2, sample 2: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 2, sample 4: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 2, sample 6: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 5, sample 0: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 5, sample 2: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 5, sample 4: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 5, sample 6: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 8, sample 0: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 8, sample 2: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 8, sample 4: taken instead of duplicate_sample",
		"duplicates-of-widened-samples, step 8, sample 6: taken instead of duplicate_sample",
	},
}

func TestHistogramSequences_AreDecidedAndReadAsByAnotherEngine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "histogram_sequences.json"))
	require.NoError(t, err)
	var file sequenceFile
	require.NoError(t, json.Unmarshal(text, &file))
	require.Len(t, file.Vectors, 44)
	var found, known []string
	for i := range file.Vectors {
		seq := &file.Vectors[i]
		t.Run(seq.Name, func(t *testing.T) {
			p := &hintPlayer{sequencePlayer{
				T: t, histograms: file.Histograms, seq: seq, fs: tsdbtest.NewMemFS(),
				window: time.Duration(seq.Options.Window) * time.Millisecond,
			}}
			p.sequencePlayer.look = p.look
			p.play()
			found = append(found, p.found...)
		})
	}
	for _, differences := range hintDifferences {
		known = append(known, differences...)
	}
	require.ElementsMatch(t, known, found)
}
