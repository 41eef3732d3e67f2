package main

import (
	"context"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// demoCheck compares what the recorder acknowledged with what is there.
type demoCheck struct {
	Acknowledged int `json:"acknowledged"` // scrapes
	Recovered    int `json:"recovered"`    // of them: there, with all samples, bit by bit
	Missing      int `json:"missing"`      // of them: not there
	Different    int `json:"different"`    // of them: there with other samples
	Beyond       int `json:"beyond"`       // scrapes committed just before the kill and not acknowledged
	Samples      int `json:"samples"`      // of the recovered ones
}

func (k *demoCheck) bad() bool { return k.Missing > 0 || k.Different > 0 }

// scrapeSums adds samples up by their time.
type scrapeSums map[int64]scrapeSum

type scrapeSum struct {
	samples int
	sum     uint64
}

func (m scrapeSums) add(t int64, sum uint64) {
	f := m[t]
	m[t] = scrapeSum{f.samples + 1, f.sum + sum}
}

func (m scrapeSums) batch(b *chunkenc.Batch) error {
	for i, t := range b.T {
		m.add(t, checksum(b.V[i]))
	}
	return nil
}

func (m scrapeSums) histogram(s *histogramSample) error {
	m.add(s.t, digestSum(s.h.Digest()))
	return nil
}

// checkScrapes reads everything that was recorded and counts it by time, as all
// samples of a scrape have the same one.
func checkScrapes(ctx context.Context, q *tsdb.Querier, acks []scrapeAck) (demoCheck, error) {
	found := make(scrapeSums, len(acks)+1)
	reader := newSamples(0)
	set := q.Select(ctx, nil)
	for s, err := range set.All() {
		if err != nil {
			return demoCheck{}, err
		}
		if err := reader.each(ctx, s, found); err != nil {
			return demoCheck{}, err
		}
	}
	if err := set.Err(); err != nil {
		return demoCheck{}, err
	}
	check := demoCheck{Acknowledged: len(acks)}
	for _, ack := range acks {
		f, ok := found[ack.T]
		delete(found, ack.T)
		switch {
		case !ok:
			check.Missing++
		case f.samples != ack.Samples || f.sum != ack.Sum:
			check.Different++
		default:
			check.Recovered++
			check.Samples += f.samples
		}
	}
	check.Beyond = len(found)
	return check, nil
}
