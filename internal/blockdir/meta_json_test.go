package blockdir

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var jsonTexts = []string{
	`{}`, `[]`, `null`, `"x"`, ` { } `, `{"a":1,"b":[1,{"c":"]}"}],"a":{"d":null}}`, "\t{\"a\\\"\" :\n\"\\\\\" , \"b\": [ ] }\r\n",
	`{"\u0061\ud83d\ude00\ud800x\n\/":true}`, `{"a":"\udc00\ud800\ud800"}`, "{\"\xff\":\"\xc0\"}", `[1, 2.5e3 ,"a,b", [[],{}] , false]`,
	`{"a":1,}`, `{"a" 1}`, `{"a":01}`, `[1 2]`, `{`, ``, `"`, `{"a":"` + "\n" + `"}`, strings.Repeat("[", 20_000),
	`1E700`, `{"a":[1E700]}`,
}

func FuzzJSON(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { requireAsJSON(t, b) })
}

func TestJSON_IsThatOfTheStandardLibrary(t *testing.T) {
	for _, text := range jsonTexts {
		requireAsJSON(t, []byte(text))
	}
}

// requireAsJSON compares what this package makes of some text with what package json does.
func requireAsJSON(t *testing.T, b []byte) {
	t.Helper()
	quoted, err := json.Marshal(string(b))
	require.NoError(t, err)
	require.Equal(t, string(quoted), string(appendJSON(nil, string(b))))
	want := json.Unmarshal(b, new(json.RawMessage)) // the syntax only: numbers may be too large for anything
	off, got := checkJSON(b)
	require.Equal(t, want == nil, got == nil, "%v, %v", want, got)
	require.LessOrEqual(t, off, len(b))
	if want != nil {
		return
	}
	var all any
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&all))
	b = []byte(strings.TrimSpace(string(b)))
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	var text string
	gotFields, isObject := splitObject(b)
	gotList, isList := splitList(b)
	gotText, isText := unquoteJSON(b)
	switch all.(type) {
	case map[string]any:
		require.NoError(t, json.Unmarshal(b, &fields))
	case []any:
		require.NoError(t, json.Unmarshal(b, &list))
	case string:
		require.NoError(t, json.Unmarshal(b, &text))
	}
	require.Equal(t, fields != nil, isObject)
	require.Equal(t, list != nil, isList)
	require.Equal(t, b[0] == '"', isText)
	require.Equal(t, text, gotText)
	require.Equal(t, fields, gotFields)
	require.Equal(t, len(list), len(gotList))
	for i := range list {
		require.Equal(t, string(list[i]), string(gotList[i]))
	}
}
