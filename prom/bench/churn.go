package bench

import "runtime"

// The rows about churn: a tenth of all series is replaced by new ones every hour, a few at
// each scrape, as when programs are deployed.
const (
	churnStep    = 60_000 // ms between scrapes
	churnScrapes = 240    // four hours: two flushes
	churnHour    = 60     // scrapes
	churnPart    = 10     // one of so many series is replaced in an hour
	firstBefore  = 500    // ms from the first sample of a new series to its next one
)

// churn measures appending while series come and go, with what is due done in between.
func churn(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	table, err := t.table(newValues(t.Series, seed))
	if err != nil {
		return nil, err
	}
	sets := t.sets()
	idle := heapBytes()
	before := now()
	if err := e.create(sets, blockStart, table[:t.Series], perCommit); err != nil {
		return nil, err
	}
	made := t.Series
	for k := 1; k < t.Samples; k++ {
		at, vs := blockStart+int64(k)*churnStep, table[k*t.Series:(k+1)*t.Series]
		var which []int
		for made < t.Series+t.Series*k/(churnPart*churnHour) {
			i := made % t.Series
			sets[i] = pairs(made)
			which = append(which, i)
			made++
		}
		if err := e.renew(which, sets, at, vs); err != nil {
			return nil, err
		}
		if err := scrape(e.appendBatch, at, vs, perCommit); err != nil {
			return nil, err
		}
		if k%churnHour == 1 {
			if err := e.merge(); err != nil {
				return nil, err
			}
		}
	}
	cost := now().since(before)
	m = measures{
		"churn/cpu":  float64(len(table)) / cost.cpu.Seconds(),
		"churn/wall": float64(len(table)) / cost.wall.Seconds(),
		"churn/peak": peakResident(),
	}
	if t.Engine != Victoria { // which has much of its memory elsewhere
		m["churn/heap"] = (heapBytes() - idle) / float64(t.Series)
		runtime.KeepAlive(sets) // or they would be taken off
	}
	return m, nil
}
