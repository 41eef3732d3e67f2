package main

import (
	"regexp"
	"text/template"
)

// usageFuncs are for usageTemplate. The library writes --[no-]help although nobody
// wants --no-help; no flag of this program can be negated.
var usageFuncs = template.FuncMap{
	"positive": func(columns string) string { return negatable.ReplaceAllString(columns, "--$1     ") },
}

var negatable = regexp.MustCompile(`--\[no-\](\S+)`)

// usageTemplate lists commands by one line each, and shows the whole help of the one
// that was asked about. Kingpin's own templates show all of everything.
const usageTemplate = `{{define "Command"}}{{if .FlagSummary}} {{.FlagSummary}}{{end}}{{range .Args}}{{if not .Hidden}} {{if not .Required}}[{{end}}<{{.Name}}>{{if .Value|IsCumulative}}...{{end}}{{if not .Required}}]{{end}}{{end}}{{end}}{{end -}}
{{define "Commands"}}{{range .FlattenedCommands}}{{if not .Hidden}}  {{.FullCommand}}{{template "Command" .}}
{{.Help|Wrap 4}}
{{end}}{{end}}{{end -}}
{{if .Context.SelectedCommand}}usage: {{.App.Name}} {{.Context.SelectedCommand}}{{template "Command" .Context.SelectedCommand}}{{if .Context.SelectedCommand.Commands}} <command>{{end}}

{{with .Context.SelectedCommand}}{{if .HelpLong}}{{.HelpLong|Wrap 0}}{{else}}{{.Help|Wrap 0}}{{end}}{{end}}
{{else}}usage: {{.App.Name}} [<flags>] <command> [<args> ...]

{{.App.Help|Wrap 0}}
{{end}}{{if .Context.Args}}Args:
{{.Context.Args|ArgsToTwoColumns|FormatTwoColumns}}
{{end}}{{if .Context.Flags}}Flags:
{{.Context.Flags|FlagsToTwoColumns|FormatTwoColumns|positive}}
{{end}}{{if .Context.SelectedCommand}}{{if .Context.SelectedCommand.Commands}}Commands:
{{template "Commands" .Context.SelectedCommand}}{{end}}{{else if .App.Commands}}Commands:
{{template "Commands" .App}}{{end}}`
