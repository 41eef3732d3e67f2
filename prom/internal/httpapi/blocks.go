package httpapi

import (
	"net/http"

	"github.com/seed347100a3/tsdb"
)

// blockFacts is what a block says of itself, in the form of its meta file.
type blockFacts struct {
	ULID       string          `json:"ulid"`
	MinTime    int64           `json:"minTime"`
	MaxTime    int64           `json:"maxTime"`
	Stats      blockStats      `json:"stats"`
	Compaction compactionFacts `json:"compaction"`
	Version    int             `json:"version"`
}

type blockStats struct {
	Samples          uint64 `json:"numSamples,omitempty"`
	FloatSamples     uint64 `json:"numFloatSamples,omitempty"`
	HistogramSamples uint64 `json:"numHistogramSamples,omitempty"`
	Series           uint64 `json:"numSeries,omitempty"`
	Chunks           uint64 `json:"numChunks,omitempty"`
	Tombstones       uint64 `json:"numTombstones,omitempty"`
}

type compactionFacts struct {
	Level     int           `json:"level"`
	Sources   []string      `json:"sources,omitempty"`
	Parents   []parentFacts `json:"parents,omitempty"`
	Deletable bool          `json:"deletable,omitempty"`
	Failed    bool          `json:"failed,omitempty"`
	Hints     []string      `json:"hints,omitempty"`
}

type parentFacts struct {
	ULID    string `json:"ulid"`
	MinTime int64  `json:"minTime"`
	MaxTime int64  `json:"maxTime"`
}

// blocks answers with what blocks say of themselves.
func (a *API) blocks(*http.Request) answer {
	list := []blockFacts{}
	for _, m := range a.DB.Blocks() {
		list = append(list, blockFactsOf(&m))
	}
	return answer{data: map[string][]blockFacts{"blocks": list}}
}

func blockFactsOf(m *tsdb.BlockMeta) blockFacts {
	s, c := &m.Stats, &m.Compaction
	f := blockFacts{
		ULID: m.ULID.String(), MinTime: m.MinTime, MaxTime: m.MaxTime, Version: m.Version,
		Stats:      blockStats{s.NumSamples, s.NumFloatSamples, s.NumHistogramSamples, s.NumSeries, s.NumChunks, s.NumTombstones},
		Compaction: compactionFacts{Level: c.Level, Deletable: c.Deletable, Failed: c.Failed, Hints: c.Hints},
	}
	for _, id := range c.Sources {
		f.Compaction.Sources = append(f.Compaction.Sources, id.String())
	}
	for _, p := range c.Parents {
		f.Compaction.Parents = append(f.Compaction.Parents, parentFacts{p.ULID.String(), p.MinTime, p.MaxTime})
	}
	return f
}
