package labels_test

import (
	"fmt"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

func ExampleFromStrings() {
	ls := labels.FromStrings("job", "api", "__name__", "up", "empty", "")
	fmt.Println(ls)
	fmt.Println(ls.Len(), ls.Get("job"), ls.Has("empty"))
	// Output:
	// {__name__="up", job="api"}
	// 2 api false
}

func ExampleLabels_All() {
	for l := range labels.FromStrings("job", "api", "__name__", "up").All() {
		fmt.Println(l.Name, "is", l.Value)
	}
	// Output:
	// __name__ is up
	// job is api
}

func ExampleLabels_Decode() {
	ls := labels.FromStrings("job", "api", "__name__", "up")
	for pos := 0; pos < ls.SizeBytes(); {
		var name, value string
		name, value, pos = ls.Decode(pos)
		fmt.Println(name, "is", value)
	}
	// Output:
	// __name__ is up
	// job is api
}

func ExampleLabels_Validate() {
	fmt.Println(labels.FromStrings("__name__", "up", "job", "a", "job", "b").Validate())
	fmt.Println(labels.FromStrings("__name__", "up", "job").Validate())
	// Output:
	// label "job" appears more than once, keep one of them: invalid label set
	// label "job" has no value, pass names and values in pairs: invalid label set
}

func ExampleBuilder() {
	var b labels.Builder
	b.Reset(labels.FromStrings("__name__", "up", "job", "api", "pod", "api-0"))
	b.Set("job", "web")
	b.Del("pod")
	fmt.Println(b.Labels())
	// Output: {__name__="up", job="web"}
}

func ExampleRegexp() {
	m, err := labels.Regexp("instance", "node-(a|b)[12]")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Matches("node-a1"), m.Matches("node-a1:9100"))
	fmt.Println(m.Prefix(), m.SetMatches())
	// Output:
	// true false
	// node- [node-a1 node-a2 node-b1 node-b2]
}

func ExampleParseSelector() {
	ms, err := labels.ParseSelector(`up{job=~"api|web", "host.name"!='a'}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range ms {
		fmt.Println(m)
	}
	fmt.Println(labels.FormatSelector(ms))

	_, err = labels.ParseSelector(`up{job==“api”}`)
	var e *labels.SelectorError
	if errors.As(err, &e) {
		fmt.Println(e.Column, e.Reason)
	}
	// Output:
	// __name__="up"
	// job=~"api|web"
	// "host.name"!="a"
	// up{job=~"api|web", "host.name"!="a"}
	// 8 want a quoted value, found '='
}
