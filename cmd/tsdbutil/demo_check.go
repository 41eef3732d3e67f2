package main

import (
	"context"

	"github.com/seed347100a3/tsdb"
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

// checkScrapes reads everything that was recorded and counts it by time, as all
// samples of a scrape have the same one.
func checkScrapes(ctx context.Context, q *tsdb.Querier, acks []scrapeAck) (demoCheck, error) {
	type content struct {
		samples int
		sum     uint64
	}
	found := make(map[int64]content, len(acks)+1)
	reader := newSamples(0)
	set := q.Select(ctx, nil)
	for s, err := range set.All() {
		if err != nil {
			return demoCheck{}, err
		}
		err := reader.each(ctx, s, floatsOnly(func(t []int64, v []float64) error {
			for i := range t {
				f := found[t[i]]
				f.samples++
				f.sum += checksum(v[i])
				found[t[i]] = f
			}
			return nil
		}))
		if err != nil {
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
