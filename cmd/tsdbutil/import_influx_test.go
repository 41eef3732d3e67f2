package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// annotated is an answer of InfluxDB: two tables of one schema, one of another, and one of
// text without annotations of its own.
const annotated = `#group,false,false,true,true,false,false,true,true,true
#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string,string
#default,_result,,,,,,,,
,result,table,_start,_stop,_time,_value,_field,_measurement,host
,,0,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:10.000000001Z,1.5,user,cpu,"a ""b"""
,,0,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,2.5,user,cpu,"a ""b"""
,,1,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z,,user,cpu,c

#group,false,false,false,false,true,true
#datatype,string,long,dateTime:RFC3339,boolean,string,string
#default,_result,,,,up,
,result,table,_time,_value,_field,host
,,2,2026-01-01T00:00:00Z,true,,c
,,2,2026-01-01T00:00:01+01:00,false,down,
`

func TestImport_AnnotatedTables_BecomeSeries(t *testing.T) {
	dir, code, messages := importInto(t, "a.txt", []byte(annotated))
	require.Equal(t, exitOK, code, messages)
	require.Equal(t, map[string][]string{
		`{__name__="cpu_user", host="a \"b\""}`: {"1767225600000 4004000000000000", "1767225610000 3ff8000000000000"},
		`{__name__="up", host="c"}`:             {"1767225600000 3ff0000000000000"},
		`{__name__="down"}`:                     {"1767222001000 0000000000000000"},
	}, stored(t, dir))
	require.NotContains(t, messages, "by its content", "the name says nothing")

	// Put together twice, the newer first, one with a mark, on Windows: the same.
	twice := strings.ReplaceAll("\ufeff"+annotated+"\n\ufeff"+annotated, "\n", "\r\n")
	again, code, messages := importInto(t, "a.om", []byte(twice))
	require.Equal(t, exitOK, code, messages)
	require.Equal(t, stored(t, dir), stored(t, again))

	// Without annotations, and with columns of one's own.
	plain, code, messages := importInto(t, "a.csv", []byte("_time,_measurement,temp,hum,room,x\n1767225600000000000,air,20,60,a,y\n\n_time,_measurement,temp,hum,room,x\n1767225601000000000,air,21,,b,y\n"),
		"--value-column=temp", "--value-column=hum", "--label-column=room", "--metric-prefix=home_")
	require.Equal(t, exitOK, code, messages)
	require.Equal(t, map[string][]string{
		`{__name__="home_air_temp", room="a"}`: {"1767225600000 4034000000000000"},
		`{__name__="home_air_hum", room="a"}`:  {"1767225600000 404e000000000000"},
		`{__name__="home_air_temp", room="b"}`: {"1767225601000 4035000000000000"},
	}, stored(t, plain))
}

func TestImport_AnnotatedTables_SayWhatIsWrong(t *testing.T) {
	head := "#datatype,string,long,dateTime:RFC3339,%,string\n,result,table,_time,_value,_field\n"
	for text, want := range map[string]string{
		strings.Replace(head, "%", "string", 1) + ",,0,2026-01-01T00:00:00Z,12,a\n":           "line 3: column _value: a value of the type string cannot be stored: \"12\"",
		strings.Replace(head, "%", "double", 1) + ",,0,2026-01-01T00:00:00Z,true,a\n":         `line 3: column _value: the value is no number: "true"`,
		strings.Replace(head, "%", "double", 1) + ",,0,soon,1,a\n":                            `line 3: the time is neither RFC 3339 nor a number of nanoseconds: "soon"`,
		strings.Replace(head, "%", "double", 1) + ",,0,2026-01-01T00:00:00Z,1,\n":             "line 3: column _value: there is neither a _measurement nor a _field",
		strings.Replace(head, "%", "double", 1) + ",,0,2026-01-01T00:00:00Z,1\n":              "line 3: wrong number of cells: there are 5, and 6 columns",
		"#datatype,string,string\n#group,true,true\n,error,reference\n,compilation failed,\n": "line 3: the table is the error of a query: , error, reference",
		"#datatype,string\n": "the table is empty",
		"#datatype,string,long\n,_time,temp\n,2026-01-01T00:00:00Z,1\n": `line 2: there is no column "_value", so say with --value-column which have values`,
		"_time,_value,a,a\n": `line 1: two columns are named "a"`,
	} {
		code, messages := importFile(t, "a.csv", []byte(text), "--format=influx")
		require.Equal(t, exitProblem, code, text)
		require.Contains(t, messages, want, text)
	}
	// What can be read of the rest is, if that is wanted.
	text := "#datatype,string,string\n,error,reference\n,failed,\n\n" + annotated
	dir, code, messages := importInto(t, "a.csv", []byte(text), "-k")
	require.Equal(t, exitProblem, code, messages)
	require.Contains(t, messages, "skipped line 3: the row is of a table that cannot be read")
	require.Len(t, stored(t, dir), 3)
}
