package httpapi

import "github.com/prometheus/prometheus/model/exemplar"

// exemplarResults is the exemplars of series.
type exemplarResults []exemplar.QueryResult

func (rs exemplarResults) write(e *encoder) {
	e.raw("[")
	for i := range rs {
		if i > 0 {
			e.raw(",")
		}
		e.raw(`{"seriesLabels":`)
		e.labels(rs[i].SeriesLabels)
		e.raw(`,"exemplars":[`)
		for k := range rs[i].Exemplars {
			if k > 0 {
				e.raw(",")
			}
			e.exemplar(&rs[i].Exemplars[k])
		}
		e.raw("]}")
	}
	e.raw("]")
}

func (e *encoder) exemplar(x *exemplar.Exemplar) {
	e.raw(`{"labels":`)
	e.labels(x.Labels)
	e.raw(`,"value":`)
	e.quoted(x.Value)
	e.raw(`,"timestamp":`)
	e.buf = appendTime(e.buf, x.Ts)
	e.raw("}")
	e.room()
}
