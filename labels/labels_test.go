package labels_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/labels"
)

// genName draws names and values that are close to each other, empty and long.
var genName = rapid.OneOf(
	rapid.SampledFrom([]string{"", "a", "aa", "ab", "b", "__name__", "é", "\xff", strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("y", 20_000)}),
	rapid.StringN(0, 6, 12),
)

func genLabels(t *rapid.T) []labels.Label {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) labels.Label {
		return labels.Label{Name: genName.Draw(t, "name"), Value: genName.Draw(t, "value")}
	}), 0, 8).Draw(t, "labels")
}

// canonical is what a set keeps of the labels it is made of.
func canonical(ls []labels.Label) []labels.Label {
	var kept []labels.Label
	for _, l := range ls {
		if l.Value != "" {
			kept = append(kept, l)
		}
	}
	slices.SortStableFunc(kept, func(a, b labels.Label) int { return cmp.Compare(a.Name, b.Name) })
	return kept
}

func TestNew_HoldsTheLabelsSortedWithoutEmptyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genLabels(t)
		given := slices.Clone(in)
		ls := labels.New(in...)
		want := canonical(in)
		require.Equal(t, given, in, "the argument changed")
		require.Equal(t, want, ls.AppendTo(nil))
		require.Equal(t, want, slices.Collect(ls.All()))
		require.Equal(t, len(want), ls.Len())
		require.Equal(t, len(want) == 0, ls.IsEmpty())
		for _, l := range in {
			i := slices.IndexFunc(want, func(w labels.Label) bool { return w.Name == l.Name })
			require.Equal(t, i >= 0, ls.Has(l.Name))
			if i >= 0 {
				require.Equal(t, want[i].Value, ls.Get(l.Name))
			} else {
				require.Empty(t, ls.Get(l.Name))
			}
		}
		require.False(t, ls.Has("no such name"))

		n := 0
		for pos := 0; pos < ls.SizeBytes(); n++ {
			var name, value string
			name, value, pos = ls.Decode(pos)
			require.Equal(t, want[n], labels.Label{Name: name, Value: value})
		}
		require.Equal(t, len(want), n)
	})
}

func TestLabels_ZeroValueIsTheEmptySet(t *testing.T) {
	var ls labels.Labels
	require.True(t, ls.IsEmpty())
	require.Zero(t, ls.Len())
	require.Zero(t, ls.SizeBytes())
	require.Empty(t, ls.Get("a"))
	require.False(t, ls.Has(""))
	require.Equal(t, ls, labels.New())
	require.Equal(t, ls, labels.FromStrings())
	require.Equal(t, ls, labels.FromMap(nil))
	require.Equal(t, ls, labels.FromStrings("a", ""))
	require.Equal(t, "{}", ls.String())
	require.Equal(t, xxhash.Sum64String(""), ls.Hash())
}

func TestLabels_ConstructorsAgree(t *testing.T) {
	want := labels.FromStrings("b", "2", "a", "1", "c", "")
	require.Equal(t, want, labels.New(labels.Label{Name: "a", Value: "1"}, labels.Label{Name: "b", Value: "2"}))
	require.Equal(t, want, labels.FromMap(map[string]string{"b": "2", "a": "1", "c": ""}))
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, want.Map())
	require.True(t, want.Equal(labels.FromStrings("a", "1", "b", "2")))
	require.False(t, want.Equal(labels.FromStrings("a", "1")))
}

func TestLabels_RangingCanStop(t *testing.T) {
	for l := range labels.FromStrings("a", "1", "b", "2").All() {
		require.Equal(t, "a", l.Name)
		break
	}
}

func TestCompare_OrdersLabelByLabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genLabels(t), genLabels(t)
		want := slices.CompareFunc(canonical(a), canonical(b), func(x, y labels.Label) int {
			return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Value, y.Value))
		})
		la, lb := labels.New(a...), labels.New(b...)
		require.Equal(t, want, labels.Compare(la, lb))
		require.Equal(t, -want, labels.Compare(lb, la))
		require.Equal(t, want == 0, la.Equal(lb))
		require.Zero(t, labels.Compare(la, la))
	})
	ordered := []labels.Labels{
		{}, labels.FromStrings("a", "1"), labels.FromStrings("a", "1", "b", "1"), labels.FromStrings("a", "1", "bb", "1"), labels.FromStrings("a", "10"),
		labels.FromStrings("a", "2"), labels.FromStrings("aa", "1"), labels.FromStrings("b", "0"),
	}
	require.True(t, slices.IsSortedFunc(ordered, labels.Compare))
}

func TestHash_StaysTheSameFromRunToRun(t *testing.T) {
	ls := labels.FromStrings("__name__", "up", "job", "api")
	require.Equal(t, xxhash.Sum64String("\x08__name__\x02up\x03job\x03api"), ls.Hash())
	require.NotEqual(t, ls.Hash(), labels.FromStrings("__name__", "up", "joba", "pi").Hash())
}

func TestValidate_NamesTheLabelAtFault(t *testing.T) {
	require.NoError(t, labels.FromStrings("__name__", "up", "é", "日本").Validate())
	for _, c := range []struct {
		ls   labels.Labels
		text string
	}{
		{labels.Labels{}, "no labels"},
		{labels.FromStrings("", "v"), `value "v" has an empty label name`},
		{labels.FromStrings("a", "1", "b\xff", "v"), `label name "b\xff" is not UTF-8`},
		{labels.FromStrings("a", "1", "b", "v\xff"), `value "v\xff" of label "b" is not UTF-8`},
		{labels.FromStrings("a", "1", "a", "1"), `label "a" appears more than once`},
		{labels.FromStrings("z", "1", "a", "1", "z", "2"), `label "z" appears more than once`},
		{labels.FromStrings("a", "1", "b"), `label "b" has no value`},
		{labels.FromStrings("a"), `label "a" has no value`},
		{labels.FromStrings("a", "1", ""), `empty label name`},
	} {
		err := c.ls.Validate()
		require.ErrorIs(t, err, labels.ErrInvalid)
		require.ErrorContains(t, err, c.text)
	}
}

func TestLabels_TextIsASelectorOfItself(t *testing.T) {
	ls := labels.FromStrings("__name__", "up", "path", "a\"b\\\n", "utf8.name", "x\xffé", "0", "1")
	require.Equal(t, `{"0"="1", __name__="up", path="a\"b\\\n", "utf8.name"="x\xffé"}`, ls.String())
	ms, err := labels.ParseSelector(ls.String())
	require.NoError(t, err)
	var back []labels.Label
	for _, m := range ms {
		require.Equal(t, labels.MatchEqual, m.Type())
		back = append(back, labels.Label{Name: m.Name(), Value: m.Value()})
	}
	require.Equal(t, ls, labels.New(back...))
}

func TestLabels_JSONIsAnObject(t *testing.T) {
	ls := labels.FromStrings("job", "api", "__name__", "up")
	b, err := json.Marshal(ls)
	require.NoError(t, err)
	require.Equal(t, `{"__name__":"up","job":"api"}`, string(b))

	var back struct{ Metric, Nothing labels.Labels }
	back.Nothing = ls
	require.NoError(t, json.Unmarshal([]byte(`{"Metric":{"job":"api","x":"","__name__":"up"},"Nothing":null}`), &back))
	require.Equal(t, ls, back.Metric)
	require.Equal(t, ls, back.Nothing)
	require.Error(t, json.Unmarshal([]byte(`{"Metric":{"job":1}}`), &back))
	require.Error(t, json.Unmarshal([]byte(`{"Metric":["job"]}`), &back))

	b, err = json.Marshal(labels.Labels{})
	require.NoError(t, err)
	require.Equal(t, `{}`, string(b))
}

func TestBuilder_EqualsAMap(t *testing.T) {
	var b labels.Builder
	rapid.Check(t, func(t *rapid.T) {
		base := labels.FromMap(labels.New(genLabels(t)...).Map()) // no duplicates
		b.Reset(base)
		want := base.Map()
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			name, value := genName.Draw(t, "name"), genName.Draw(t, "value")
			if rapid.Bool().Draw(t, "set") {
				b.Set(name, value)
				want[name] = value
			} else {
				b.Del(name, value)
				delete(want, name)
				delete(want, value)
			}
			maps.DeleteFunc(want, func(_, v string) bool { return v == "" })
			require.Equal(t, want[name], b.Get(name))
			require.Equal(t, labels.FromMap(want), b.Labels())
		}
	})
}

func TestBuilder_MergesDuplicatesOnlyWhenTold(t *testing.T) {
	var b labels.Builder
	b.Reset(labels.FromStrings("a", "1", "a", "2", "b", "3"))
	require.Error(t, b.Labels().Validate())
	b.Set("a", "4")
	require.Equal(t, labels.FromStrings("a", "4", "b", "3"), b.Labels())
	b.Reset(labels.FromStrings("a", "1", "a", "2", "b", "3"))
	b.Del("a")
	require.Equal(t, labels.FromStrings("b", "3"), b.Labels())
}

func TestBuilder_EarlierSetsDoNotChange(t *testing.T) {
	var b labels.Builder
	b.Set("a", "1")
	first := b.Labels()
	b.Set("a", "2")
	second := b.Labels()
	b.Reset(labels.Labels{})
	b.Set("zzz", "zzz")
	b.Labels()
	require.Equal(t, labels.FromStrings("a", "1"), first)
	require.Equal(t, labels.FromStrings("a", "2"), second)
}

func TestFromEncoded_ReadsWhatAppendEncodedWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ls := labels.New(genLabels(t)...)
		b := ls.AppendEncoded([]byte("x"))
		require.Len(t, b, 1+ls.SizeBytes())
		back, err := labels.FromEncoded(b[1:])
		require.NoError(t, err)
		require.Equal(t, ls, back)
		lying, err := labels.UnsafeFromEncoded(b[1:])
		require.NoError(t, err)
		require.Equal(t, ls, lying)
		clear(b)
		require.Equal(t, ls, back)
	})
}

func TestUnsafeFromEncoded_LiesInTheBytes(t *testing.T) {
	b := []byte("\x01a\x011\x01b\x012")
	require.Zero(t, testing.AllocsPerRun(100, func() { sinkLabels, _ = labels.UnsafeFromEncoded(b) }))
	ls, err := labels.UnsafeFromEncoded(b)
	require.NoError(t, err)
	b[3] = '9'
	require.Equal(t, labels.FromStrings("a", "9", "b", "2"), ls)
}

func TestFromEncoded_NormalisesWhatOthersWrote(t *testing.T) {
	for name, b := range map[string]string{
		"unsorted":     "\x01b\x012\x01a\x011",
		"empty value":  "\x01a\x011\x01b\x012\x01c\x00",
		"long lengths": "\x81\x00a\x81\x80\x00\x31\x01b\x012",
	} {
		for _, decode := range []func([]byte) (labels.Labels, error){labels.FromEncoded, labels.UnsafeFromEncoded} {
			encoded := []byte(b)
			ls, err := decode(encoded)
			clear(encoded)
			require.NoError(t, err, name)
			require.Equal(t, labels.FromStrings("a", "1", "b", "2"), ls, name)
		}
	}
}

func TestFromEncoded_CutOffBytesAreAnError(t *testing.T) {
	whole := labels.FromStrings("name", "value", "x", strings.Repeat("y", 300)).AppendEncoded(nil)
	for n := range len(whole) {
		_, err := labels.FromEncoded(whole[:n])
		if n == 0 || n == len("\x04name\x05value") {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, labels.ErrEncoding)
		require.ErrorContains(t, err, "offset")
	}
	_, err := labels.FromEncoded([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"))
	require.ErrorIs(t, err, labels.ErrEncoding)
	_, err = labels.FromEncoded([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	require.ErrorIs(t, err, labels.ErrEncoding)
}

func FuzzLabelsRoundTrip(f *testing.F) {
	f.Add([]byte("\x08__name__\x02up\x03job\x03api"))
	f.Add([]byte("\x01b\x012\x01a\x011"))
	f.Add([]byte("\x81\x00a\x81\x80\x00\x31"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ls, err := labels.FromEncoded(b)
		if err != nil {
			require.ErrorIs(t, err, labels.ErrEncoding)
			return
		}
		require.LessOrEqual(t, ls.SizeBytes(), len(b))
		all := ls.AppendTo(nil)
		require.Equal(t, ls, labels.New(all...))
		require.Len(t, all, ls.Len())
		require.True(t, slices.IsSortedFunc(all, func(x, y labels.Label) int { return cmp.Compare(x.Name, y.Name) }))
		for _, l := range all {
			require.True(t, ls.Has(l.Name))
		}
		again, err := labels.FromEncoded(ls.AppendEncoded(nil))
		require.NoError(t, err)
		require.Zero(t, labels.Compare(ls, again))
		if ls.Validate() == nil {
			text, err := json.Marshal(ls)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &again))
			require.Equal(t, ls, again)
			ms, err := labels.ParseSelector(ls.String())
			if len(ls.String()) <= labels.MaxSelectorBytes {
				require.NoError(t, err)
				require.Len(t, ms, ls.Len())
			}
		}
	})
}
