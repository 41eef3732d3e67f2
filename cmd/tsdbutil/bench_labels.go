package main

import (
	"bufio"
	"os"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// maxLabelsLine bounds a line of a file of label sets, in bytes.
const maxLabelsLine = 1 << 20

// readLabels reads label sets, a JSON object a line, at most limit of them if limit is
// not 0. Empty lines are skipped.
func readLabels(name string, limit int) ([]labels.Labels, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, errors.Wrap(err, "open label sets")
	}
	defer func() { _ = f.Close() }() // only read
	var sets []labels.Labels
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLabelsLine)
	for n := 1; (limit == 0 || len(sets) < limit) && lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var ls labels.Labels
		if err := ls.UnmarshalJSON(lines.Bytes()); err != nil {
			return nil, errors.WithMessagef(err, "%s line %d", name, n)
		}
		if err := ls.Validate(); err != nil {
			return nil, errors.WithMessagef(err, "%s line %d", name, n)
		}
		sets = append(sets, ls)
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Wrapf(err, "read %s", name)
	}
	if len(sets) == 0 {
		return nil, errors.Errorf("%s has no label sets", name)
	}
	return sets, nil
}

// makeLabels invents label sets as a fleet of web servers has them: ten labels, a few
// metrics, many instances.
func makeLabels(n int) []labels.Labels {
	metrics := []string{"http_requests_total", "http_request_duration_seconds_sum", "http_response_size_bytes_sum", "process_cpu_seconds_total", "go_gc_duration_seconds_sum"}
	methods := []string{"GET", "POST", "PUT", "DELETE"}
	codes := []string{"200", "204", "404", "500"}
	sets := make([]labels.Labels, 0, n)
	for i := range n {
		// The metric turns fastest, so any prefix of the list is a mixture.
		metric, method, code := i%len(metrics), i/len(metrics)%len(methods), i/len(metrics)/len(methods)%len(codes)
		host := i / len(metrics) / len(methods) / len(codes)
		sets = append(sets, labels.FromStrings(
			labels.MetricName, metrics[metric],
			"cluster", "eu-west-"+strconv.Itoa(host%3),
			"code", codes[code],
			"container", "server",
			"handler", "/api/v1/items",
			"instance", "10."+strconv.Itoa(host>>16&255)+"."+strconv.Itoa(host>>8&255)+"."+strconv.Itoa(host&255)+":9100",
			"job", "web-"+strconv.Itoa(host%7),
			"method", methods[method],
			"namespace", "production",
			"pod", "web-7d9f8b6c5-"+strconv.Itoa(host),
		))
	}
	return sets
}
