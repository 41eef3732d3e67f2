package tsdbtest

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
)

// CrashStates yields file systems as they may be after a power cut at the moment
// when the iteration begins; m may go on meanwhile. Each is a fresh one for the
// caller.
//
// If there are at most max states, it yields every one. If there are more, but the
// states in which each pending change is either wholly lost or wholly kept are at
// most max, it yields those and fills up with samples that also have garbage, zeros
// and sizes in between. Otherwise it yields the extremes (all lost, all kept, names
// without data, data without names, all garbage, all zeros) and samples, some of
// them with names in order. Never more than max, and no choice twice. The samples
// depend only on what was done before, so a failing one comes again.
func (m *MemFS) CrashStates(max int) iter.Seq[*MemFS] {
	return func(yield func(*MemFS) bool) {
		max := min(max, 1<<30) // leaves room for one more than max
		frozen := m.KillClone()
		s := sampler{fs: frozen, left: max, seed: uint64(frozen.mu.ops), seen: map[uint64]bool{}, yield: yield}
		all, plain := frozen.countStates(max)
		switch {
		case all <= max:
			s.enumerate(false)
		case plain <= max:
			s.enumerate(true)
			s.sample()
		default:
			s.extremes()
			s.sample()
		}
	}
}

// countStates returns upper bounds for the number of states, all and those with
// Lost and Kept only. Above limit they only say that.
func (m *MemFS) countStates(limit int) (all, plain int) {
	all, plain = 1, 1
	for range m.mu.pending {
		all, plain = times(all, 2, limit), times(plain, 2, limit)
	}
	for n := range m.reachable() {
		if n.dir || plain > limit {
			continue
		}
		a, p := n.file.countStates(limit)
		all, plain = times(all, a, limit), times(plain, p, limit)
	}
	return all, plain
}

// countStates adds up, over the sizes, the combinations of the sectors below.
func (c *content) countStates(limit int) (all, plain int) {
	for i, size := range c.sizeChoices() {
		a, p := 1, 1
		c.eachPending(size, func(s span) {
			if p > limit {
				return // both are too many; spare the comparing
			}
			if choices := c.sectorChoices(s); len(choices) > 0 {
				a, p = times(a, len(choices), limit), times(p, len(plainOutcomes(choices)), limit)
			}
		})
		all = min(all+a, limit+1)
		if i <= int(Kept) {
			plain = min(plain+p, limit+1)
		}
	}
	return all, plain
}

// times multiplies; above limit it returns limit+1.
func times(n, factor, limit int) int {
	if n > limit/factor {
		return limit + 1
	}
	return n * factor
}

// reachable returns the nodes that the program sees or that a power cut may show.
func (m *MemFS) reachable() map[*node]bool {
	seen := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, child := range n.entries {
			visit(child)
		}
		for _, child := range n.durable {
			visit(child)
		}
	}
	visit(m.mu.root)
	for _, op := range m.mu.pending {
		visit(op.add.node)
		visit(op.del.node)
	}
	return seen
}

// sampler hands out at most left states, none twice.
type sampler struct {
	fs    *MemFS // nobody else has it
	left  int
	seed  uint64
	seen  map[uint64]bool
	yield func(*MemFS) bool
}

// try yields the state of these options unless it was there already.
func (s *sampler) try(opts CrashOptions) {
	if s.left <= 0 {
		return
	}
	clone := s.fs.CrashClone(opts)
	if id := fateID(clone.fate); !s.seen[id] {
		s.seen[id] = true
		s.left--
		if !s.yield(clone) {
			s.left = 0
		}
	}
}

// fateID tells states apart. What decisions are asked follows from those before, so
// the outcomes are enough.
func fateID(fate []Decision) uint64 {
	h := fnv.New64a()
	for _, d := range fate {
		_, _ = h.Write([]byte{byte(d.Outcome)}) // a hash does not fail
	}
	return h.Sum64()
}

// enumerate walks the tree of all decisions depth first: path is the branch taken
// at each, widths how many there are. With plain it takes Lost and Kept only.
func (s *sampler) enumerate(plain bool) {
	var path, widths []int
	for s.left > 0 {
		at := 0
		s.try(CrashOptions{Seed: s.seed, Choose: func(p Pending) Outcome {
			outcomes := p.Outcomes
			if plain {
				outcomes = plainOutcomes(outcomes)
			}
			if at == len(path) {
				path, widths = append(path, 0), append(widths, len(outcomes))
			}
			at++
			return outcomes[path[at-1]]
		}})
		for at = len(path) - 1; at >= 0 && path[at]+1 == widths[at]; at-- {
		}
		if at < 0 {
			return
		}
		path, widths = path[:at+1], widths[:at+1]
		path[at]++
	}
}

func plainOutcomes(outcomes []Outcome) []Outcome {
	n := 1 // Lost is always first, Kept second if it is there
	if len(outcomes) > 1 && outcomes[1] == Kept {
		n = 2
	}
	return outcomes[:n]
}

func (s *sampler) extremes() {
	by := func(names, sizes, sectors Outcome) CrashOptions {
		return CrashOptions{Seed: s.seed, Choose: func(p Pending) Outcome {
			return [...]Outcome{PendingName: names, PendingSize: sizes, PendingSector: sectors}[p.Kind]
		}}
	}
	for _, opts := range []CrashOptions{
		by(Lost, Lost, Lost), by(Kept, Kept, Kept),
		by(Kept, Lost, Lost), by(Lost, Kept, Kept),
		by(Kept, Kept, Lost), by(Kept, Lost, Kept),
		by(Kept, Kept, Garbage), by(Kept, Kept, Zeroed),
	} {
		s.try(opts)
	}
}

// sample tries random states until there were enough, or too many repeat.
func (s *sampler) sample() {
	for budget := 16*s.left + 16; s.left > 0 && budget > 0; budget-- {
		s.seed++
		s.try(CrashOptions{Seed: s.seed, Ordered: s.seed%2 == 0, Choose: randomFate(s.seed)})
	}
}

// randomFate returns a Choose with a character of its own: how much of the names
// and of the data survives, and how often bytes are torn.
func randomFate(seed uint64) func(Pending) Outcome {
	rng := rand.New(rand.NewPCG(seed, 0x7464622d63726173))
	odds := [...]float64{0, 0.1, 0.5, 0.9, 1}
	keepName, keepData := odds[rng.IntN(len(odds))], odds[rng.IntN(len(odds))]
	torn := [...]float64{0, 0.2, 0.6}[rng.IntN(3)]
	return func(p Pending) Outcome {
		keep := keepData
		if p.Kind == PendingName {
			keep = keepName
		}
		switch {
		case p.Kind != PendingName && rng.Float64() < torn:
			return p.Outcomes[rng.IntN(len(p.Outcomes))]
		case rng.Float64() < keep:
			return Kept
		default:
			return Lost
		}
	}
}
