package main

import (
	"strconv"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/dustin/go-humanize"

	"github.com/seed347100a3/tsdb"
)

// limitFlags bound labels. 0 is no bound; the names are those of scrape configurations.
type limitFlags struct {
	labels, name, value int
	set                 string
	setBytes            int
}

func (f *limitFlags) flags(cmd *kingpin.CmdClause) {
	usual := tsdb.DefaultOptions().Limits
	limit := func(name, help string, target *int, usual int) {
		cmd.Flag(name, help+"; 0 is no limit.").PlaceHolder(strconv.Itoa(usual)).Default(strconv.Itoa(usual)).IntVar(target)
	}
	limit("label-limit", "Labels of a series, the name included", &f.labels, usual.LabelsPerSeries)
	limit("label-name-length-limit", "Bytes of a label's name", &f.name, usual.LabelNameBytes)
	limit("label-value-length-limit", "Bytes of a label's value", &f.value, usual.LabelValueBytes)
	set := strings.ReplaceAll(humanize.IBytes(uint64(usual.LabelSetBytes)), " ", "")
	cmd.Flag("label-set-length-limit", "Bytes of the names and values of a series together; 0 is no limit.").PlaceHolder(set).Default(set).StringVar(&f.set)
}

// Bounds of a line: escapes make a byte of a label six, and a line without end has to
// be noticed even if labels have no limit.
const (
	escapedBytes = 6
	longestLine  = 64 << 20
)

// longestLine reads the flags and returns how long a line may be.
func (f *limitFlags) longestLine() (int, error) {
	if f.labels < 0 || f.name < 0 || f.value < 0 {
		return 0, usageError("--label-limit, --label-name-length-limit, --label-value-length-limit: want 0 or more")
	}
	set, err := humanize.ParseBytes(f.set)
	if err != nil || set > longestLine {
		return 0, usageError("--label-set-length-limit: want a size up to 64MiB such as 16KiB, not " + quoted(f.set))
	}
	if f.setBytes = int(set); set == 0 {
		return longestLine, nil
	}
	return min(max(maxLine, 2*escapedBytes*f.setBytes), longestLine), nil
}

// options are the limits for the library, where 0 is the usual one.
func (f *limitFlags) options() tsdb.Limits {
	none := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return tsdb.Limits{
		LabelsPerSeries: none(f.labels), LabelNameBytes: none(f.name), LabelValueBytes: none(f.value), LabelSetBytes: none(f.setBytes),
	}
}
