package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// demoText shows the demo as it goes. A nil demoText shows nothing.
type demoText struct {
	c   *console
	dir string
	d   *demoCommand
}

func newDemoText(c *console, d *demoCommand) *demoText { return &demoText{c: c, d: d, dir: d.dir} }

// demoPlotHeight makes ten steps of a rounded axis.
const demoPlotHeight = 10

func (s *demoText) heading(name, format string, args ...any) {
	about := ""
	if format != "" {
		about = "  " + s.c.paint(sgrDim, fmt.Sprintf(format, args...))
	}
	s.c.printf("\n%s%s\n", s.c.paint(sgrBold, name), about)
}

func (s *demoText) title() {
	if s == nil {
		return
	}
	s.c.printf("%s: record this machine into %s for %s, then kill the recorder\n",
		s.c.paint(sgrBold, "tsdb demo"), s.dir, formatDuration(s.d.duration))
}

func (s *demoText) recorded(r *recording) {
	if s == nil {
		return
	}
	s.heading("Recorded", "for %s by process %d, killed without warning", formatSeconds(r.Seconds), r.PID)
	if r.Found.Samples > 0 {
		s.c.printf("  went on after %s samples of %s series, the last of %s\n",
			count(r.Found.Samples), count(r.Found.Series), formatTime(r.Found.MaxT))
	}
	s.c.printf("  %s scrapes acknowledged: %s samples, %s series\n", count(r.Scrapes), count(r.Samples), count(r.Series))
}

func (s *demoText) recovered(r *tsdb.OpenReport) error {
	if s == nil {
		return nil
	}
	s.heading("Recovered", "in %s", formatDuration(r.Duration))
	return s.c.printRecovery(r)
}

func (s *demoText) checked(k demoCheck) {
	if s == nil {
		return
	}
	mark, colour := "✓", sgrGreen
	if k.Missing+k.Different > 0 {
		mark, colour = "✗", sgrRed
	}
	s.c.printf("  %s\n", s.c.paint(colour, fmt.Sprintf("%s %s scrapes acknowledged, %s recovered: %s samples, bit by bit",
		mark, count(k.Acknowledged), count(k.Recovered), count(k.Samples))))
	if k.Missing+k.Different > 0 {
		s.c.printf("  %s\n", s.c.paint(sgrRed, fmt.Sprintf("%d are missing, %d are not what was written", k.Missing, k.Different)))
	}
	if k.Beyond > 0 {
		s.c.printf("  %s\n", s.c.paint(sgrDim, fmt.Sprintf("and %d that was committed when the kill came before the acknowledgement", k.Beyond)))
	}
}

func (s *demoText) selected(selections []demoSelection) {
	if s == nil {
		return
	}
	s.heading("Selected", "three questions")
	for _, q := range selections {
		answers := make([]string, 0, len(q.Answer))
		for _, a := range q.Answer {
			answers = append(answers, a.Name+" "+a.format())
		}
		if len(answers) == 0 {
			answers = append(answers, "this system does not tell")
		}
		s.c.printf("  %s\n", q.Question)
		s.c.printf("    %s\n", s.c.paint(sgrDim, shorten(q.Selector, s.c.width-4)))
		s.c.printf("    %s\n", shorten(strings.Join(answers, ", "), s.c.width-4))
		s.c.printf("    %s\n", s.c.paint(sgrDim, fmt.Sprintf("%s series, %s samples read in %s", count(q.Series), count(q.Samples), formatSeconds(q.Seconds))))
	}
}

func (a *demoAnswer) format() string {
	if a.Unit == "percent" {
		return unitPercent.format(float64(a.Value))
	}
	return unitBytes.format(float64(a.Value))
}

func (s *demoText) metrics(metrics []demoMetric) error {
	if s == nil || len(metrics) == 0 {
		return nil
	}
	s.heading("Metrics", "of this run; counters as rates over a second")
	rows := make([]table.Row, 0, len(metrics))
	for _, m := range metrics {
		v := func(v jsonFloat) string { return m.unit.format(float64(v)) }
		rows = append(rows, table.Row{m.Name, m.Of, v(m.Last), v(m.Min), v(m.Max)})
	}
	if err := s.c.printTable(table.Row{"metric", "of", "last", "min", "max"}, rows, 0, 3, 4, 5); err != nil {
		return err
	}
	s.c.printf("\n")
	for _, m := range metrics {
		if m.Of == busy {
			s.c.printf("%s", s.c.plot(busyChart(m)))
		}
	}
	return nil
}

// busyChart draws how busy the CPUs were.
func busyChart(m demoMetric) chart {
	zone, _ := time.Now().Zone()
	t := m.line.t
	return chart{
		title: "CPU busy, percent of all CPUs, time in " + zone, unit: unitPercent, round: true,
		mint: t[0], maxt: t[len(t)-1], height: demoPlotHeight, lines: []line{m.line},
	}
}

func (s *demoText) end(r *demoResult) {
	if s == nil {
		return
	}
	s.heading("On disk", "%s for %s samples of %s series", s.c.bytes(r.Disk.Bytes), count(r.Disk.Samples), count(r.Disk.Series))
	parts := make([]string, 0, len(r.Disk.Entries))
	for _, e := range r.Disk.Entries {
		parts = append(parts, e.Name+" "+s.c.bytes(e.Bytes))
	}
	s.c.printf("  %s\n", s.c.paint(sgrBold, fmt.Sprintf("%.2f bytes per sample", r.Disk.BytesPerSample)))
	for _, line := range joinLines(parts, s.c.width-2) {
		s.c.printf("  %s\n", line)
	}
	s.heading("Try next", "")
	for _, command := range r.Next {
		s.c.printf("  %s\n", command)
	}
}
