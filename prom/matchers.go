package prom

import (
	"sync"

	promlabels "github.com/prometheus/prometheus/model/labels"

	"github.com/seed347100a3/tsdb/labels"
)

// matcherCache keeps matchers by what they say. An engine asks the same few queries again and
// again, and to compile a regular expression can take longer than to answer one.
type matcherCache struct {
	mu  sync.Mutex
	all map[matcherKey]*labels.Matcher // of regular expressions; guarded by mu
}

type matcherKey struct {
	typ         labels.MatchType
	name, value string
}

// maxMatchers is how many are kept: some dashboards' worth.
const maxMatchers = 1 << 10

// translate returns matchers of theirs as ours.
func (c *matcherCache) translate(theirs []*promlabels.Matcher) ([]*labels.Matcher, error) {
	ours := make([]*labels.Matcher, len(theirs))
	for i, m := range theirs {
		var err error
		if ours[i], err = c.matcher(m); err != nil {
			return nil, err
		}
	}
	return ours, nil
}

func (c *matcherCache) matcher(m *promlabels.Matcher) (*labels.Matcher, error) {
	switch m.Type {
	case promlabels.MatchEqual:
		return labels.Equal(m.Name, m.Value), nil
	case promlabels.MatchNotEqual:
		return labels.NotEqual(m.Name, m.Value), nil
	}
	key := matcherKey{labels.MatchRegexp, m.Name, m.Value}
	if m.Type == promlabels.MatchNotRegexp {
		key.typ = labels.MatchNotRegexp
	}
	c.mu.Lock()
	known := c.all[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	made, err := labels.NewMatcher(key.typ, m.Name, m.Value)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxMatchers {
		c.all = map[matcherKey]*labels.Matcher{}
	}
	c.all[key] = made
	return made, nil
}
