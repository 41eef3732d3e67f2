package tsdb_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Sequences of exemplars and metadata, with what another engine answered. Each is played against a
// model of what is right here, too; where the two differ, a table says why.

type exemplarSequence struct {
	Name    string
	Options struct {
		Exemplars int
		Window    int64 `json:"ooo_window_ms"`
	}
	Series [][]string
	Steps  []exemplarStep
}

type exemplarStep struct {
	Do             string
	Samples, Calls []exemplarItem
	Start, End     int64
	Mint, Maxt     int64
	Matchers       [][]string
	Result         json.RawMessage
	Records        [][]json.RawMessage
	Capacity       int
	Series         int
	With           string
}

// exemplarItem is a sample with what came with it, or one call.
type exemplarItem struct {
	sequenceSample
	Exemplars []sequenceExemplar
	Meta      []string
	Exemplar  *sequenceExemplar // a call of its own
	Metadata  []string          // likewise
}

type sequenceExemplar struct{ exemplar.Exemplar }

func (e *sequenceExemplar) UnmarshalJSON(text []byte) error {
	var ls []string
	var v histtest.Bits
	err := json.Unmarshal(text, &[]any{&ls, &v, &e.T})
	e.Labels, e.Value, e.HasT = labels.FromStrings(ls...), float64(v), true
	return err
}

// exemplarDifferences are where the database does something else, by reason.
var exemplarDifferences = map[string][]string{
	"any time is taken: a late one goes to its place, and several of one time are kept": {
		"exemplar-validation-v2, step 8, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-validation-v1, step 8, call 1: taken instead of out_of_order_exemplar",
		"exemplar-order-and-duplicates-v2, step 4, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-order-and-duplicates-v2, step 5, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-order-and-duplicates-v1, step 4, call 1: taken instead of out_of_order_exemplar",
		"exemplar-order-and-duplicates-v1, step 5, call 1: taken instead of out_of_order_exemplar",
		"exemplar-order-and-duplicates-v2, step 13: another answer",
		"exemplar-order-and-duplicates-v2, step 17: another answer",
		"exemplar-order-and-duplicates-v1, step 13: another answer",
		"exemplar-order-and-duplicates-v1, step 17: another answer",
		"exemplar-window-on, step 2, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-on, step 3, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-on, step 5: another answer",
		"exemplar-window-on, step 8: another answer",
		"exemplar-window-on, step 10: another answer",
		"exemplar-window-on, step 11: another answer",
		"exemplar-window-on, step 15: another answer",
		"exemplar-window-boundary, step 2, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-boundary, step 3, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-boundary, step 4, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-boundary, step 5, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-window-boundary, step 8, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 2, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 3, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 4, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 6, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 7, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-same-time-and-value, step 9, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-of-histograms, step 3, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-of-histograms, step 5, sample 0: taken instead of partial:[\"out_of_order_exemplar\"]",
		"exemplar-of-histograms, step 6, sample 0: taken instead of partial:[\"out_of_order_exemplar\",\"out_of_order_exemplar\"]",
		"exemplar-replay, step 7, sample 1: taken instead of partial:[\"out_of_order_exemplar\"]",
	},
	"a repeat is one by the bits of its value, NaN or not, wherever in the ring the first one is": {
		"exemplar-same-time-and-value, step 14: another answer",
	},
	"exemplars and metadata make their series": {
		"exemplar-smaller-after-reopen, step 10, call 0: taken instead of other: unknown HeadSeriesRef when trying to add exemplar: 0",
		"metadata-v1, step 0, call 0: taken instead of other: unknown series when trying to add metadata with HeadSeriesRef: 0 and labels: {__name__=\"m\", i=\"a\"}",
	},
	"another value where the head has that time is refused, in order or late": {
		"exemplar-with-a-late-sample, step 2, sample 0: duplicate_sample instead of taken",
	},
	"who appends an exemplar without labels, or where none are kept, is told": {
		"exemplar-validation-v2, step 3, sample 0: partial:[\"exemplar_no_labels\"] instead of taken",
		"exemplar-validation-v1, step 3, call 1: exemplar_no_labels instead of taken",
		"exemplar-resize, step 18, sample 0: partial:[\"exemplars_off\"] instead of taken",
		"exemplar-resize, step 19, call 1: exemplars_off instead of taken",
		"exemplar-storage-off, step 2, sample 0: partial:[\"exemplars_off\"] instead of taken",
		"exemplar-storage-off, step 3, call 1: exemplars_off instead of taken",
	},
	"a checkpoint has exemplars of any time, and a restart loses none that were returned before": {
		"exemplar-replay, step 12: another answer",
	},
}

// exemplarPlayer plays one sequence.
type exemplarPlayer struct {
	*fixture
	seq    *exemplarSequence
	values sequencePlayer // makes samples
	model  exemplarModel
	odd    map[string]bool  // lines of exemplars, or their neighbours, that are decided in another way
	newest map[string]int64 // times of samples
	logged []modelExemplar  // that come back at a restart
	meta   map[string]tsdb.Metadata
	noted  map[string]tsdb.Metadata // that the log has, and comes back at a restart
	refs   map[uint64]string        // series of the other engine's log
	theirs map[string]tsdb.Metadata // what that log says
	found  []string                 // differences
}

func (p *exemplarPlayer) differs(where, got, want string) {
	if got != want {
		p.found = append(p.found, fmt.Sprintf("%s, %s: %s instead of %s", p.seq.Name, where, cmp.Or(got, "taken"), cmp.Or(want, "taken")))
	}
}

func (p *exemplarPlayer) name(err error) string {
	switch {
	case errors.Is(err, exemplar.ErrLabelLength):
		return "exemplar_label_length"
	case errors.Is(err, exemplar.ErrNoLabels):
		return "exemplar_no_labels"
	case errors.Is(err, tsdb.ErrExemplarsOff):
		return "exemplars_off"
	default:
		return p.values.name(err)
	}
}

// exemplarTx is a transaction that is under way.
type exemplarTx struct {
	*exemplarPlayer
	app       *tsdb.Appender
	exemplars []modelExemplar
	meta      []labelled
	samples   []string // by index: where, if the other engine takes it
	taken     []*exemplarItem
}

// isOdd notes that the other engine decides in another way.
func (tx *exemplarTx) isOdd(series int, es ...sequenceExemplar) {
	for _, e := range es {
		tx.odd[sequenceLine(tx.values.labels(series), e.Exemplar)] = true
	}
}

// sequenceLine is an exemplar as fixture.exemplars writes it.
func sequenceLine(series labels.Labels, e exemplar.Exemplar) string {
	return fmt.Sprintf("%s %s %d %v", series, e.Labels, e.T, e.Value)
}

type labelled struct {
	series string
	tsdb.Metadata
}

// sample appends a sample. If it is refused, what came with it is left out.
func (tx *exemplarTx) sample(where string, item *exemplarItem) (refused bool) {
	_, err := tx.app.AppendSample(0, tx.values.labels(item.S), tx.values.sample(&item.sequenceSample))
	if err != nil {
		name := tx.name(err)
		if tx.differs(where, name, item.Error); name != item.Error {
			tx.isOdd(item.S, item.Exemplars...)
		}
		return true
	}
	ls := tx.values.labels(item.S).String()
	tx.newest[ls] = max(tx.newest[ls], item.T)
	tx.samples, tx.taken = append(tx.samples, where), append(tx.taken, item)
	return false
}

func (tx *exemplarTx) exemplar(series int, e exemplar.Exemplar) string {
	ls := tx.values.labels(series)
	_, err := tx.app.AppendExemplar(0, ls, e)
	if err == nil {
		tx.exemplars = append(tx.exemplars, modelExemplar{series: ls.String(), e: e})
	}
	return tx.name(err)
}

func (tx *exemplarTx) metadata(series int, m []string) {
	ls := tx.values.labels(series)
	said := tsdb.Metadata{Type: tsdb.MetricTypeOf(m[0]), Unit: m[1], Help: m[2]}
	_, err := tx.app.SetMetadata(0, ls, said)
	require.NoError(tx.t, err)
	if m[0]+m[1]+m[2] != "" {
		tx.meta = append(tx.meta, labelled{ls.String(), said})
	}
}

// item appends a sample with all that came with it.
func (tx *exemplarTx) item(where string, item *exemplarItem) {
	if tx.sample(where, item) {
		return
	}
	if item.Meta != nil {
		tx.metadata(item.S, item.Meta)
	}
	var refused []string
	for _, e := range item.Exemplars {
		if name := tx.exemplar(item.S, e.Exemplar); name != "" {
			refused = append(refused, strconv.Quote(name))
		}
	}
	got := ""
	if refused != nil {
		got = "partial:[" + strings.Join(refused, ",") + "]"
	}
	if strings.HasPrefix(item.Error, "partial:") || got != "" {
		if tx.differs(where, got, item.Error); got != item.Error {
			tx.isOdd(item.S, item.Exemplars...)
		}
		item.Error = ""
	}
}

// call makes one call.
func (tx *exemplarTx) call(where string, item *exemplarItem) {
	switch {
	case item.Exemplar != nil:
		got := tx.exemplar(item.S, item.Exemplar.Exemplar)
		if tx.differs(where, got, item.Error); got != item.Error {
			tx.isOdd(item.S, *item.Exemplar)
		}
	case item.Metadata != nil:
		tx.metadata(item.S, item.Metadata)
		tx.differs(where, "", item.Error)
	default:
		tx.sample(where, item)
	}
}

func (tx *exemplarTx) commit() {
	res, err := tx.app.Commit(ctx)
	require.NoError(tx.t, err)
	refused := map[int]string{}
	for _, r := range res.Rejected {
		refused[r.Index] = tx.name(r.Err)
	}
	for i, item := range tx.taken {
		tx.differs(tx.samples[i], refused[i], item.Error)
	}
	for _, m := range tx.meta {
		tx.exemplarPlayer.meta[m.series], tx.noted[m.series] = m.Metadata, m.Metadata
	}
	if tx.model.most <= 0 {
		return
	}
	// A repeat counts by what was there when the commit began.
	var fresh []modelExemplar
	for _, x := range tx.exemplars {
		same := func(o modelExemplar) bool { return o.series == x.series && o.e.Equal(x.e) }
		if !slices.ContainsFunc(tx.model.inserts, same) && !slices.ContainsFunc(fresh, same) {
			fresh = append(fresh, x)
		}
	}
	for _, x := range fresh {
		tx.model.insert(x)
	}
	tx.exemplarPlayer.logged = append(tx.exemplarPlayer.logged, fresh...)
}

// commit plays a transaction of either form.
func (p *exemplarPlayer) commit(step int, s *exemplarStep) {
	tx := &exemplarTx{exemplarPlayer: p, app: p.db.Appender()}
	for i := range s.Samples {
		tx.item(fmt.Sprintf("step %d, sample %d", step, i), &s.Samples[i])
	}
	for i := range s.Calls {
		tx.call(fmt.Sprintf("step %d, call %d", step, i), &s.Calls[i])
	}
	if s.Do == "rollback" {
		require.NoError(p.t, tx.app.Rollback())
		return
	}
	tx.commit()
}

// lists parses lists of matchers.
func (p *exemplarPlayer) lists(s *exemplarStep) (lists [][]*labels.Matcher) {
	for _, list := range s.Matchers {
		var ms []*labels.Matcher
		if len(list) > 0 {
			var err error
			ms, err = labels.ParseSelector("{" + strings.Join(list, ",") + "}")
			require.NoError(p.t, err)
		}
		lists = append(lists, ms)
	}
	return lists
}

// matching are the series, by their text, which all matchers of a list match.
func (p *exemplarPlayer) matching(lists [][]*labels.Matcher) map[string]bool {
	all := map[string]bool{}
	for i := range p.seq.Series {
		ls := p.values.labels(i)
		for _, ms := range lists {
			if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name())) }) {
				all[ls.String()] = true
			}
		}
	}
	return all
}

func seriesOfLine(line string) string { return line[:strings.Index(line, "}")+1] }

// query compares with the model, and with the answer of the other engine.
func (p *exemplarPlayer) query(step int, s *exemplarStep) {
	lists := p.lists(s)
	var got []string
	for _, ms := range lists {
		for _, line := range p.exemplars(s.Start, s.End, ms...) {
			if !slices.Contains(got, line) {
				got = append(got, line)
			}
		}
	}
	if len(lists) > 1 { // a caller puts lists together
		slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(seriesOfLine(a), seriesOfLine(b)) })
	}
	of := p.matching(lists)
	want := slices.DeleteFunc(p.model.lines(s.Start, s.End), func(line string) bool { return !of[seriesOfLine(line)] })
	require.True(p.t, slices.Equal(want, got), "%s, step %d: want %q, got %q", p.seq.Name, step, want, got)

	var theirs []struct {
		Labels    []string
		Exemplars []sequenceExemplar
	}
	require.NoError(p.t, json.Unmarshal(s.Result, &theirs))
	var lines []string
	for _, x := range theirs {
		for _, e := range x.Exemplars {
			lines = append(lines, sequenceLine(labels.FromStrings(x.Labels...), e.Exemplar))
		}
	}
	isOdd := func(line string) bool { return p.odd[line] }
	if !slices.Equal(slices.DeleteFunc(got, isOdd), slices.DeleteFunc(lines, isOdd)) {
		p.found = append(p.found, fmt.Sprintf("%s, step %d: another answer", p.seq.Name, step))
	}
}

// log compares metadata with what the other engine's log says.
func (p *exemplarPlayer) log(step int, s *exemplarStep) {
	const ofSeries, ofMetadata = 1, 6
	for _, rec := range s.Records {
		var typ int
		require.NoError(p.t, json.Unmarshal(rec[1], &typ))
		var entries [][]json.RawMessage
		if typ == ofSeries || typ == ofMetadata {
			require.NoError(p.t, json.Unmarshal(rec[2], &entries))
		}
		for _, e := range entries {
			var ref uint64
			require.NoError(p.t, json.Unmarshal(e[0], &ref))
			if typ == ofSeries {
				var ls []string
				require.NoError(p.t, json.Unmarshal(e[1], &ls))
				p.refs[ref] = labels.FromStrings(ls...).String()
				continue
			}
			var m tsdb.Metadata
			require.NoError(p.t, errors.Join(json.Unmarshal(e[1], &m.Type), json.Unmarshal(e[2], &m.Unit), json.Unmarshal(e[3], &m.Help)))
			p.theirs[p.refs[ref]] = m
		}
	}
	if fmt.Sprint(p.theirs) != fmt.Sprint(metadataOf(p.t, p.db)) {
		p.found = append(p.found, fmt.Sprintf("%s, step %d: other metadata", p.seq.Name, step))
	}
}

// restart opens the database again, after a close or a kill: the log fills the ring.
func (p *exemplarPlayer) restart(s *exemplarStep) {
	most := p.opts.Head.MaxExemplars
	if number, ok := strings.CutPrefix(s.With, "exemplars: "); ok {
		var err error
		most, err = strconv.Atoi(number)
		require.NoError(p.t, err)
	} else if s.With != "" {
		require.Equal(p.t, "exemplar storage off", s.With)
		most = -1
	}
	p.opts.Head.MaxExemplars = most
	if s.Do == "kill" {
		p.kill()
	} else {
		p.reopen()
	}
	rep := p.db.OpenReport()
	require.True(p.t, rep.Clean(), "%+v", rep)
	p.model, p.meta = exemplarModel{most: most}, maps.Clone(p.noted)
	for _, x := range p.logged {
		if most > 0 {
			p.model.insert(x)
		}
	}
}

// resize changes how many are kept; 0 is the number for none there, a negative one here.
func (p *exemplarPlayer) resize(capacity int) {
	if capacity <= 0 {
		capacity, p.model.inserts = -1, nil
	}
	p.model.most = capacity
	p.model.inserts = p.model.inserts[max(0, len(p.model.inserts)-max(0, capacity)):]
	p.db.SetMaxExemplars(capacity)
}

// compact makes blocks. Series without a newer sample leave the head, and their metadata goes
// with them. It comes back where the log still has the record of the series.
func (p *exemplarPlayer) compact() {
	require.NoError(p.t, p.db.Compact(ctx))
	p.logged = slices.Clone(p.model.inserts) // a checkpoint has no others
	blocks := p.db.Blocks()
	require.NotEmpty(p.t, blocks)
	for series, t := range p.newest {
		if t < blocks[len(blocks)-1].MaxTime {
			delete(p.meta, series)
		}
	}
}

func (p *exemplarPlayer) step(i int, s *exemplarStep) {
	switch s.Do {
	case "commit", "commit_v1", "rollback":
		p.commit(i, s)
	case "exemplars":
		p.query(i, s)
	case "log", "checkpoint":
		p.log(i, s)
	case "reopen", "kill":
		p.restart(s)
	case "resize_exemplars":
		p.resize(s.Capacity)
	case "delete":
		p.values.db = p.db
		p.values.delete(&sequenceStep{Series: s.Series, Mint: s.Mint, Maxt: s.Maxt})
	case "compact":
		p.compact()
	case "counters", "files":
		// They are about the other engine.
	default:
		require.FailNow(p.t, "unknown step", s.Do)
	}
	require.Equal(p.t, p.meta, metadataOf(p.t, p.db), "%s, step %d", p.seq.Name, i)
	stats := p.db.Stats()
	require.Equal(p.t, len(p.model.inserts), stats.Exemplars)
	of := map[string]bool{}
	for _, x := range p.model.inserts {
		of[x.series] = true
	}
	require.Equal(p.t, len(of), stats.ExemplarSeries)
}

func playExemplars(t *testing.T, histograms map[string]json.RawMessage, seq *exemplarSequence) []string {
	most := cmp.Or(seq.Options.Exemplars, 10)
	p := &exemplarPlayer{
		seq: seq, model: exemplarModel{most: most}, meta: map[string]tsdb.Metadata{},
		refs: map[uint64]string{}, theirs: map[string]tsdb.Metadata{}, noted: map[string]tsdb.Metadata{}, odd: map[string]bool{}, newest: map[string]int64{},
		fixture: newFixture(t, func(o *tsdb.Options) {
			manual(o)
			o.Clock = tsdbtest.NewClock(time.UnixMilli(1_700_040_000_000)) // behind all samples
			o.Head.MaxExemplars = most
			o.Head.OutOfOrderWindow = time.Duration(seq.Options.Window) * time.Millisecond
		}),
	}
	p.values = sequencePlayer{T: t, histograms: histograms, seq: &sequence{Name: seq.Name, Series: seq.Series}}
	for range seq.Series {
		p.values.there = append(p.values.there, map[int64][]string{})
	}
	for i := range seq.Steps {
		p.step(i, &seq.Steps[i])
	}
	require.NoError(t, p.db.Health())
	return p.found
}

func TestExemplarSequences_AreDecidedAsByAnotherEngine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "exemplar_sequences.json"))
	require.NoError(t, err)
	var file struct {
		Vectors    []exemplarSequence
		Histograms map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Len(t, file.Vectors, 20)
	var found, known []string
	for i := range file.Vectors {
		seq := &file.Vectors[i]
		t.Run(seq.Name, func(t *testing.T) { found = append(found, playExemplars(t, file.Histograms, seq)...) })
	}
	for _, differences := range exemplarDifferences {
		known = append(known, differences...)
	}
	require.ElementsMatch(t, known, found)
}
